"use strict";
// Words of the field are marked where they first stand in a part of the page; pointing at one, or tapping it, says what it means.
window.explainTerms = (() => {
  const WHERE = "h1, h2, legend, label, dt, th, .lead, .context, .hint, .help, figcaption, .notes li, summary";
  const holder = document.getElementById("terms");
  if (!holder) return () => {};
  const { words, layout } = JSON.parse(holder.textContent);
  const plain = new Map(Object.entries(words).map(([word, means]) => [word.toLowerCase(), means]));
  const isName = (word) => /[A-Z]{2}|@/.test(word); // MFU is a name, decode is not
  const names = Object.keys(words).toSorted((a, b) => b.length - a.length);
  const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "[ \\u00a0]");
  const parts = Object.keys(layout).join("|");
  const found = new RegExp(`(?<![\\w-])(?:${names.map(escaped).join("|")}|(?:${parts})\\d+(?:-(?:${parts})\\d+)*)(?![\\w-])`, "gi");

  function meaning(text) {
    const word = text.replace(/\u00a0/g, " ");
    if (/^[a-z]{2}\d/.test(word)) {
      const said = word.split("-").map((one) => [layout[one.slice(0, 2)], Number(one.slice(2))]);
      const useful = said.filter(([, n]) => n > 1).map(([means, n]) => means.replace("{n}", n));
      const all = useful.length ? `${useful.join("; ")}.` : "one GPU holds the whole model.";
      return all[0].toUpperCase() + all.slice(1);
    }
    if (words[word]) return words[word];
    const means = plain.get(word.toLowerCase());
    return means && !names.some((name) => name.toLowerCase() === word.toLowerCase() && isName(name)) ? means : null;
  }

  const bubble = document.createElement("div");
  Object.assign(bubble, { id: "term-means", className: "term-means", hidden: true });
  bubble.setAttribute("role", "tooltip");
  document.body.append(bubble);
  let shown = null;

  function hide() {
    shown?.removeAttribute("aria-describedby");
    shown = null;
    bubble.hidden = true;
  }

  function show(term) {
    if (term === shown) return;
    hide();
    shown = term;
    term.setAttribute("aria-describedby", bubble.id);
    bubble.textContent = term.dataset.means;
    bubble.hidden = false;
    const at = term.getBoundingClientRect(), wide = document.documentElement.clientWidth;
    bubble.style.left = `${Math.max(8, Math.min(at.left, wide - bubble.offsetWidth - 8)) + scrollX}px`;
    const below = at.bottom + 6, room = innerHeight - bubble.offsetHeight - 8;
    bubble.style.top = `${(below < room ? below : Math.max(8, at.top - bubble.offsetHeight - 6)) + scrollY}px`;
  }

  const termOf = (event) => event.target.closest?.(".term");
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType !== "mouse") return;
    const term = termOf(event);
    if (term) show(term); else if (!bubble.contains(event.target)) hide();
  });
  document.addEventListener("click", (event) => { const term = termOf(event); if (term) show(term); else hide(); });
  document.addEventListener("focusin", (event) => { const term = termOf(event); if (term) show(term); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // a word is marked once in each part; inside what is pressed itself it takes no stop of the Tab key
  return (part) => {
    if (shown && !shown.isConnected) hide();
    const seen = new Set([...part.querySelectorAll(".term")].map((one) => one.dataset.means));
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT, (node) => {
      const own = node.parentElement;
      return own.closest(WHERE) && !own.closest("a, button:not(.by), code, select, textarea, .term, .set, svg, [hidden]") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT;
    });
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    for (const node of nodes) {
      const pieces = [];
      let from = 0;
      for (const match of node.data.matchAll(found)) {
        const means = meaning(match[0]);
        if (!means || seen.has(means)) continue;
        seen.add(means);
        const term = document.createElement("span");
        term.className = "term";
        term.dataset.means = means;
        if (!node.parentElement.closest("label, summary, legend, button")) term.tabIndex = 0;
        term.textContent = match[0];
        pieces.push(node.data.slice(from, match.index), term);
        from = match.index + match[0].length;
      }
      if (pieces.length) node.replaceWith(...pieces, node.data.slice(from));
    }
  };
})();
