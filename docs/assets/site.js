"use strict";
const isNarrow = matchMedia("(max-width: 44em)").matches;
const MOVED = ".md-typeset__scrollwrap, .md-typeset :is(pre > code, .rows, .picture)";
const HELP = /^Usage: /, GAP = /\S {2,}\S/;
// What is moved aside must be reached by the keyboard too.
const reached = (place) => {
  if (place.scrollWidth <= place.clientWidth + 1) return;
  place.tabIndex = 0;
  place.classList.add("aside");
};

// Lines that a terminal broke at its edge, joined again.
const joined = (lines) => lines.reduce((out, line, at) => {
  const before = out.at(-1);
  if (at > 0 && lines[at - 1].length > 80 && line.search(/\S/) <= lines[at - 1].search(/\S/)) out[out.length - 1] = `${before} ${line.trim()}`;
  else out.push(line);
  return out;
}, []);

// An option or a command, then what it is.
function entry(name, words) {
  const place = document.createElement("span"), head = document.createElement("b"), said = document.createElement("span");
  place.className = "entry";
  head.textContent = name;
  said.textContent = words.join(" ");
  place.append(head, said);
  return place;
}

// The options of a printed help: a name, two spaces or a new line, and words at the same column.
function entries(lines) {
  const out = [`${lines[0]}\n`];
  let name = "", words = [];
  const close = () => { if (name) out.push(entry(name, words)); };
  for (const line of lines.slice(1)) {
    const found = /^ {2}(\S.*?)(?: {2,}(\S.*))?$/.exec(line);
    if (found) {
      close();
      [name, words] = [found[1], found[2] ? [found[2]] : []];
    } else words.push(line.trim());
  }
  close();
  return out;
}

// What was printed for a hundred columns, for a phone: words are wrapped, and only a table is moved aside.
function reflow(printed) {
  const text = printed.textContent.trimEnd(), isHelp = HELP.test(text);
  printed.replaceChildren(...text.split(/\n(?: *\n)+/).flatMap((chunk) => {
    const lines = chunk.split("\n");
    if (isHelp && /^\S.*:$/.test(lines[0]) && lines.length > 1) return [...entries(lines), "\n"];
    if (isHelp && lines[0].startsWith("  ")) return [lines.map((line) => line.trim()).join(" "), "\n\n"];
    if (!lines.some((line) => GAP.test(line)) || isHelp) return [joined(lines).join("\n"), "\n\n"];
    const rows = document.createElement("span");
    rows.className = "rows";
    rows.textContent = chunk;
    return [rows, "\n"];
  }));
}

// A row of a table that is wider than a phone becomes a card: each figure beside the name of its column.
function cards(table) {
  const heads = [...table.querySelectorAll("thead th")].map((one) => one.textContent.trim());
  if (heads.length < 3 || table.parentElement.parentElement.scrollWidth <= table.parentElement.parentElement.clientWidth + 1) return;
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => { cell.dataset.label = heads[at] || ""; });
  table.classList.add("cards");
}

// What is closed below a heading opens for a link to that heading.
function unfold() {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let next = place?.nextElementSibling; next && !/^H[1-6]$/.test(next.tagName); next = next.nextElementSibling)
    if (next.matches("details")) next.open = true;
}

addEventListener("load", () => {
  for (const printed of document.querySelectorAll(".language-text pre code")) {
    if (isNarrow) reflow(printed);
    else if (printed.textContent.split("\n").filter((line) => GAP.test(line)).length > 1) {
      printed.classList.add("columns");
      printed.tabIndex = 0;
    }
  }
  for (const picture of document.querySelectorAll('.md-typeset p > img[src$=".svg"]:only-child')) picture.parentElement.classList.add("picture");
  if (isNarrow) document.querySelectorAll(".md-typeset__table > table").forEach(cards);
  document.querySelectorAll(MOVED).forEach(reached);
  unfold();
});
addEventListener("hashchange", unfold);
document.addEventListener("toggle", ({ target }) => {
  if (!target.open) return;
  if (isNarrow) target.querySelectorAll(".md-typeset__table > table:not(.cards)").forEach(cards);
  target.querySelectorAll(MOVED).forEach(reached);
}, true);
// Shown by the app, under /docs/, the pages link to the app itself; docs/app_links.py marks the addresses.
addEventListener("DOMContentLoaded", () => {
  const { base } = JSON.parse(document.getElementById("__config").textContent);
  const root = new URL(`${base}/`, location.href);
  if (!root.protocol.startsWith("http") || root.pathname !== "/docs/") return;
  for (const link of document.querySelectorAll("a.app-link:not([href])")) link.href = link.dataset.app;
});
