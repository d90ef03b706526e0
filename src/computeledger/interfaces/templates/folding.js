"use strict";
// A long table shows its first rows and a button for all of them; what is folded can be searched, ordered and printed.
(() => {
  const LONG = 12, SHOWN = 10; // app.css and report.css hide the rows from the eleventh on
  const opened = new Set(); // by name: a table that a reader opened stays open as the next answer comes
  let count = 0;

  // the button below a table, or null where the table is short; name tells tables of a page apart
  window.foldRows = (table, name) => {
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= LONG) return null;
    const button = document.createElement("button");
    table.id ||= `rows-${(count += 1)}`;
    Object.assign(button, { type: "button", className: "quiet fold" });
    button.setAttribute("aria-controls", table.id);
    const tell = () => {
      const isOpen = opened.has(name), left = rows.filter((row) => !row.hidden).length;
      const found = left < rows.length ? " found" : "";
      table.classList.toggle("folded", !isOpen);
      button.hidden = left <= SHOWN;
      button.textContent = isOpen ? `Show the first ${SHOWN} rows` : `Show all ${left.toLocaleString("en")} rows${found}`;
      button.setAttribute("aria-label", name ? `${button.textContent} of ${name}` : button.textContent);
      button.setAttribute("aria-expanded", String(isOpen));
    };
    button.addEventListener("click", () => {
      if (!opened.delete(name)) opened.add(name);
      tell();
      button.scrollIntoView({ block: "nearest" });
    });
    table.addEventListener("found", tell); // a search has hidden rows or shown them again
    tell();
    return button;
  };

  // a link to a row that is folded away opens its table
  window.unfoldAt = (hash) => {
    const table = hash.length > 1 && document.getElementById(hash.slice(1))?.closest("table.folded");
    if (!table) return;
    document.querySelector(`[aria-controls="${table.id}"]`).click();
    document.getElementById(hash.slice(1)).scrollIntoView();
  };
})();
