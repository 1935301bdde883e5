// Says where a table, a formula or code is wider than the page and can be scrolled.
const SCROLLED = ".pst-scrollable-table-container, .bd-article div.math, .bd-article pre";

function markScrolled() {
  for (const box of document.querySelectorAll(SCROLLED)) {
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
  }
}

window.addEventListener("load", markScrolled);
window.addEventListener("resize", markScrolled);
