"use strict";
// Sorts the tables by a column; folded parts open before a page is printed.
function valueOf(row, column) {
  const text = row.cells[column].textContent.trim().replace(/−/g, "-");
  const number = parseFloat(text);
  return Number.isNaN(number) ? text : number;
}
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b));
}
function sortBy(table, heads, column) {
  const up = heads[column].getAttribute("aria-sort") !== "ascending";
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  rows.sort((a, b) => (up ? 1 : -1) * compare(valueOf(a, column), valueOf(b, column)));
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", up ? "ascending" : "descending");
  rows.forEach((row) => body.appendChild(row));
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortBy(table, heads, column));
    head.replaceChildren(button);
  });
}
window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});
