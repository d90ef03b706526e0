"use strict";
// A table wider than the page is scrolled by the theme's frame around it: the keyboard must reach it too.
addEventListener("load", () => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) frame.tabIndex = 0;
  // So is a printed table, whose columns a wrapped line would tear apart; other text is wrapped.
  for (const printed of document.querySelectorAll(".language-text pre code")) {
    const rows = printed.textContent.split("\n").filter((line) => /\S {2,}\S/.test(line));
    if (rows.length < 2) continue;
    printed.classList.add("columns");
    printed.tabIndex = 0;
  }
});
// Shown by the app, under /docs/, the pages link to the app itself; docs/app_links.py marks the addresses.
addEventListener("DOMContentLoaded", () => {
  const { base } = JSON.parse(document.getElementById("__config").textContent);
  const root = new URL(`${base}/`, location.href);
  if (!root.protocol.startsWith("http") || root.pathname !== "/docs/") return;
  for (const link of document.querySelectorAll("a.app-link:not([href])")) link.href = link.dataset.app;
});
