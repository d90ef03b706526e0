"use strict";
// A table that is wider than its place becomes cards, and a table again where there is room. The name of a row is the
// heading of its card, and each figure stands behind the name of its column. A card shows the columns that a narrow
// terminal keeps longest; a button shows the rest.
(() => {
  const SHOWN = 5, LEAST = 3; // figures of a card; columns from which on a table may become cards
  const PROSE = 832; // px below which a table of sentences becomes cards: it always fits, and is hard to read
  const needs = new WeakMap(); // px that a table of figures takes, once it was found too wide
  let places = null;

  // columns that leave a narrow page first: those declared, then from the last one on
  function hidden(names, drops) {
    const declared = drops.map((name) => names.indexOf(name)).filter((i) => i > 0);
    const order = [...new Set([...declared, ...[...names.keys()].reverse()])].filter((i) => i > 0);
    return names.length - 1 > SHOWN + 1 ? order.slice(0, names.length - 1 - SHOWN) : [];
  }

  function fit(table) {
    const { clientWidth: room, scrollWidth: taken } = table.parentElement;
    if (!room) return;
    const isCards = table.classList.contains("as-cards"), isProse = "prose" in table.dataset;
    if (!isCards && (isProse ? room < PROSE : taken > room + 1)) {
      needs.set(table, isProse ? PROSE : taken);
      turn(table, true);
    } else if (isCards && room >= needs.get(table)) turn(table, false);
  }

  function turn(table, isCards) {
    table.classList.toggle("as-cards", isCards);
    for (const one of table.tHead.querySelectorAll("button")) one.tabIndex = isCards ? -1 : 0; // out of sight there
    if (isCards && table.querySelector(".rest") && !table.querySelector(".rest-by")) for (const row of table.tBodies[0].rows) addMore(row);
  }

  function addMore(row) {
    const count = [...row.querySelectorAll(".rest")].filter((one) => one.textContent.trim()).length;
    if (!count) return;
    const name = document.createElement("span"), button = document.createElement("button");
    name.className = "unseen";
    name.textContent = ` of ${row.cells[0].textContent.trim()}`;
    const tell = () => {
      const isWhole = row.classList.contains("whole");
      button.replaceChildren(isWhole ? "Less" : `${count} more`, name);
      button.setAttribute("aria-expanded", String(isWhole));
    };
    Object.assign(button, { type: "button", className: "rest-by", onclick: () => { row.classList.toggle("whole"); tell(); } });
    tell();
    row.cells[0].append(button);
  }

  // watch a table with a head; drops names the columns that leave first
  window.cardRows = (table, drops = []) => {
    const names = [...table.tHead?.rows[0].cells ?? []].map((one) => one.textContent.trim());
    if (names.length < LEAST) return;
    const rest = hidden(names, drops);
    for (const row of table.tBodies[0].rows) for (const [i, one] of [...row.cells].entries()) {
      if (i) one.dataset.name = names[i];
      if (rest.includes(i)) one.classList.add("rest");
    }
    places ??= new ResizeObserver((seen) => { for (const one of new Set(seen.map(({ target }) => target.closest("table") ?? target.querySelector("table")))) if (one) fit(one); });
    places.observe(table.parentElement);
    places.observe(table); // new texts may need more room
  };
})();
