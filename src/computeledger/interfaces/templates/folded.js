// A report is whole without JavaScript; with it, details are closed, long tables folded and wide ones made cards before a reader sees them.
document.querySelectorAll("main .detail, main .more").forEach((one) => { one.open = false; });
document.querySelectorAll("main > section > .scroll > table, main .detail > .scroll > table").forEach((table) => {
  const button = window.foldRows(table, table.closest("section").querySelector("h2").textContent);
  if (button) table.parentElement.after(button);
  window.cardRows(table, JSON.parse(table.dataset.drops));
});
window.unfoldAt(location.hash);
addEventListener("hashchange", () => window.unfoldAt(location.hash));
