// Tables of an answer: columns order the rows, a search finds them, long ones show their first rows, details are closed.

import { element } from "./dom.js";

const PROSE = 36; // characters from which on a cell is read, not compared
const said = (cell) => (typeof cell === "string" ? cell : cell.text);

// words may break behind a stroke, a figure and its unit may not
function cellParts(cell, isNumber) {
  if (/^\d{4}-\d\d(-\d\d)?$/.test(cell)) return [element("span", { class: "date" }, cell)];
  const parts = isNumber ? [said(cell)] : said(cell).split(/(?<=\/)/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
  if (typeof cell === "string") return parts;
  const bar = cell.share === null ? [] : [element("span", { class: "meter" }, element("i", { style: `width: ${(100 * Math.min(Math.max(cell.share, 0), 1)).toFixed(1)}%` })), " "];
  const text = cell.href ? [element("a", cell.href.startsWith("/") ? { href: cell.href } : { href: cell.href, target: "_blank", rel: "noreferrer" }, cell.text)] : parts;
  const below = cell.below ? [element("span", { class: "below" }, cell.below)] : [];
  if (cell.tone) bar.push(element("span", { class: "tone", style: `background: ${cell.tone}` }));
  return [...bar, ...text, ...below, ...(cell.details ? [more(cell)] : [])];
}

const more = (cell) => element("details", { class: "more" }, element("summary", {}, "More", element("span", { class: "unseen" }, ` of ${cell.text}`)),
  element("span", { class: "below" }, cell.details));

// columns of prose share the width by how much they say
function widths(one) {
  const length = (cell) => said(cell).length + (cell.below ?? "").length;
  const shares = one.columns.map((name, i) => {
    const lengths = one.rows.map((row) => length(row[i]));
    return Math.sqrt(Math.max(name.length, lengths.reduce((sum, each) => sum + each) / lengths.length, Math.max(...lengths) / 4)) + 1;
  });
  const whole = shares.reduce((sum, share) => sum + share, 0);
  return element("colgroup", {}, ...shares.map((share) => element("col", { style: `width: ${((100 * share) / whole).toFixed(1)}%` })));
}

// tables of an answer in a place: one whose columns and rows are called as before takes the new texts, so that a move of a
// slider builds nothing, and a reader's order, search and folds stay
export function fill(place, tables, whose, why, others = []) {
  const before = new Map([...place.children].map((section) => [section.shape, section]));
  const next = tables.map((one) => {
    const shape = JSON.stringify([one.title, one.columns, one.rows.map((row) => said(row[0])), one.is_detail, one.key, Boolean(one.note)]);
    const section = before.get(shape);
    before.delete(shape);
    if (section) retext(section, one);
    return section ?? Object.assign(table(one, whose, why), { shape });
  });
  next.push(...others);
  for (const one of [...place.children]) if (!next.includes(one)) one.remove();
  next.forEach((one, i) => { if (place.children[i] !== one) place.insertBefore(one, place.children[i] ?? null); }); // one that stays keeps the focus
}

function retext(section, one) {
  const { body, given } = section;
  one.rows.forEach((row, place) => {
    const shown = given[place].row;
    shown.classList.toggle("strong", one.strong.includes(place));
    row.forEach((cell, i) => {
      const now = JSON.stringify(cell);
      if (given[place].cells[i] === now) return;
      given[place].cells[i] = now;
      const more = shown.cells[i].querySelector(".rest-by");
      shown.cells[i].replaceChildren(...cellParts(cell, one.columns[i].endsWith("#")), ...(more ? [more] : []));
    });
  });
  if (one.note) section.querySelector(".quiet.note").textContent = one.note;
  body.reorder?.();
}

// a row about what the row before it is about
const isAgain = ({ rows }, place) => place > 0 && said(rows[place][0]) === said(rows[place - 1][0]) && !rows[place][0].href;

// roles are written out: tables become cards where there is no room (cards.js), and stay tables to a screen reader
export function table(one, whose, why) {
  const numeric = one.columns.map((name) => name.endsWith("#"));
  const names = one.columns.map((name) => name.replace(/ ?#$/, ""));
  const isLong = one.rows.some((row) => row.some((cell, i) => cell.details || (cell.below ?? "").length > PROSE || (i && said(cell).length > PROSE)));
  const body = element("tbody", { role: "rowgroup" }, ...one.rows.map((row, place) => element("tr", { role: "row", class: [one.strong.includes(place) && "strong", isAgain(one, place) && "again"].filter(Boolean).join(" ") || null }, ...row.map((cell, i) =>
    i === 0 ? element("th", { scope: "row", role: "rowheader" }, ...cellParts(cell, numeric[0]))
      : element("td", { role: "cell", class: numeric[i] ? "number" : null, "data-name": names[i] }, ...cellParts(cell, numeric[i]))))));
  const order = one.rows.length > 3 ? ordering(names, numeric, body) : null;
  const rows = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": one.title + whose },
    element("table", { role: "table", "data-prose": isLong ? "" : null, class: one.is_sortable ? "sorted" : names.length > 2 ? `cards${isLong ? " long" : ""}${one.columns.length === 5 && one.rows.some((_, place) => isAgain(one, place)) ? " grouped" : ""}` : null }, isLong ? widths(one) : null,
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...names.map((name, i) =>
        element("th", { scope: "col", role: "columnheader", class: numeric[i] ? "number" : null },
          order && name ? element("button", { type: "button", class: "by", onclick: () => order.next(i) }, name) : name)))), body));
  window.cardRows(rows.firstElementChild, one.drops ?? []);
  const name = one.title + whose, isMany = one.rows.length > 12; // as long as those that are folded
  const fold = window.foldRows(rows.firstElementChild, name);
  const note = one.note ? element("p", { class: "quiet note" }, one.note) : null;
  const tools = [one.key ? why(one.key, one.title) : null, order?.box(name) ?? null, isMany && !document.querySelector("#search") ? finder(name, body) : null];
  const kept = { body, given: [...body.rows].map((row, place) => ({ row, cells: one.rows[place].map((cell) => JSON.stringify(cell)) })) };
  if (!one.is_detail) return Object.assign(element("section", {}, element("div", { class: "table-top" }, element("h2", {}, one.title), ...tools), rows, fold, note), kept);
  return Object.assign(element("section", {}, element("details", { class: "detail", open: unfolded.has(name), ontoggle: (event) => { if (event.target.open) unfolded.add(name); else unfolded.delete(name); } },
    element("summary", {}, element("h2", {}, one.title)), element("div", { class: "table-top" }, ...tools), rows, fold, note)), kept);
}

// details that a reader opened stay open as the next answer comes
const unfolded = new Set();

// numbers fall, words rise; the order of the answer comes back at the third press
const UNITS = { ns: 1e-9, "\u00b5s": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, day: 86400, days: 86400, months: 2.63e6, years: 3.156e7,
  k: 1e3, K: 1e3, M: 1e6, B: 1e9, T: 1e12, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15, kW: 1e3, MW: 1e6, GW: 1e9,
  MFLOP: 1e6, GFLOP: 1e9, TFLOP: 1e12, PFLOP: 1e15, EFLOP: 1e18 };

// what a cell's first number amounts to: $1.2K, 450 ms, 16.4 GB
function amount(text) {
  const found = /([-+\u2212]?)\$?(\d[\d,]*\.?\d*(?:e[-+]?\d+)?)(?:\s?([\p{L}\u00b5]+))?/u.exec(text);
  if (!found) return NaN;
  const number = Number(found[2].replaceAll(",", "")) * (UNITS[found[3]] ?? 1);
  return "-\u2212".includes(found[1]) && found[1] ? -number : number;
}

function ordered(rows, i, isNumeric, direction) {
  const key = (row) => row.cells[i].firstChild?.textContent ?? "";
  const value = new Map(rows.map((row) => [row, isNumeric ? amount(row.cells[i].textContent) : key(row)]));
  const isNone = (row) => isNumeric && Number.isNaN(value.get(row));
  return [...rows].sort((one, other) => (isNone(one) || isNone(other) ? isNone(one) - isNone(other)
    : direction * (isNumeric ? value.get(one) - value.get(other) : value.get(one).localeCompare(value.get(other)))));
}

// the order of the rows: a press on a head gives it its next turn, and cards have a list of all turns
function ordering(names, numeric, body) {
  const asGiven = [...body.rows];
  const turnsOf = (i) => (numeric[i] ? ["descending", "ascending"] : ["ascending", "descending"]);
  const heads = () => body.parentElement.tHead.rows[0].cells;
  const said = (i, turn) => `${names[i]}, ${(numeric[i] ? { descending: "high to low", ascending: "low to high" } : { descending: "Z to A", ascending: "A to Z" })[turn]}`;
  const list = element("select", { onchange: () => { const [i, turn] = list.value.split(" "); put(Number(i), turn || null); } }, element("option", { value: "" }, "as listed"),
    ...names.flatMap((name, i) => (name ? turnsOf(i).map((turn) => element("option", { value: `${i} ${turn}` }, said(i, turn))) : [])));

  function put(i, turn) {
    for (const one of heads()) one.removeAttribute("aria-sort");
    if (turn) heads()[i].setAttribute("aria-sort", turn);
    list.value = turn ? `${i} ${turn}` : "";
    body.parentElement.classList.toggle("ordered", Boolean(turn));
    body.reorder = turn && (() => body.replaceChildren(...ordered(asGiven, i, numeric[i], turn === "ascending" ? 1 : -1)));
    if (turn) body.reorder(); else body.replaceChildren(...asGiven);
  }

  function next(i) {
    const turns = [...turnsOf(i), null];
    put(i, turns[(turns.indexOf(heads()[i].getAttribute("aria-sort")) + 1) % 3]);
  }

  return { next, box: (title) => { list.setAttribute("aria-label", `order of ${title}`); return element("label", { class: "order" }, "Order ", list); } };
}

function finder(title, body) {
  const find = (event) => {
    const asked = event.target.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) row.hidden = !asked.every((word) => row.textContent.toLowerCase().includes(word));
    body.parentElement.dispatchEvent(new Event("found"));
  };
  return element("label", { class: "find" }, "Find ", element("input", { type: "search", "aria-label": `find in ${title}`, oninput: find }));
}
