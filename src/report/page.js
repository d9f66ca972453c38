"use strict";
// Sorting: a click on a head. Numbers have units: 1.36ms, 4K, 96%, ~2.1s.
const UNITS = {ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, K: 1024, k: 1e3, M: 1048576, G: 2 ** 30, T: 2 ** 40, "%": 1, "": 1};
const value = cell => {
  const text = cell ? cell.textContent.trim() : "";
  const found = /^[~<=>]*([\d.]+) ?(ns|us|ms|s|B|K|k|M|G|T|%|)$/.exec(text);
  return found ? found[1] * UNITS[found[2]] : text;
};
const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
const sort = head => {
  const row = head.parentNode, body = row.closest("table").tBodies[0];
  const place = [...row.cells].indexOf(head), numbers = head.classList.contains("n");
  const up = head.ariaSort ? head.ariaSort === "descending" : !numbers;
  for (const other of row.cells) other.removeAttribute("aria-sort");
  head.ariaSort = up ? "ascending" : "descending";
  const rows = [...body.rows].map(r => [value(r.cells[place]), r]);
  rows.sort((a, b) => up ? compare(a[0], b[0]) : compare(b[0], a[0]));
  body.append(...rows.map(r => r[1]));
};
for (const head of document.querySelectorAll("th")) {
  if (!head.textContent) continue;
  const button = document.createElement("button");
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}
// Folding: all at once, and all open on paper.
const all = [...document.querySelectorAll("details")];
const fold = document.createElement("button");
const open = () => all.every(d => d.open);
fold.textContent = "open or fold all";
fold.addEventListener("click", () => { const is = !open(); for (const d of all) d.open = is; });
if (all.length) document.querySelector("nav").append(fold);
let before = [];
addEventListener("beforeprint", () => { before = all.filter(d => !d.open); for (const d of before) d.open = true; });
addEventListener("afterprint", () => { for (const d of before) d.open = false; });
