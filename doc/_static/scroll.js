// Says where a table, a formula, a figure or code is wider than the page and can be scrolled.
const SCROLLED = [
  ".pst-scrollable-table-container",
  ".bd-article div.math",
  ".bd-article pre",
  ".bd-article .figure-scroll",
  ".bd-article .sk-top-container",
  ".bd-article a:has(> img.figure-wide)",
].join(", ");

function markScrolled() {
  for (const box of document.querySelectorAll(SCROLLED)) {
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1);
  }
}

// An option such as --counts is not broken after its hyphens.
function markOptions() {
  for (const word of document.querySelectorAll(".bd-article code span.pre")) {
    word.classList.toggle("option", word.textContent.startsWith("--"));
  }
}

window.addEventListener("load", markOptions);
window.addEventListener("load", markScrolled);
window.addEventListener("resize", markScrolled);
