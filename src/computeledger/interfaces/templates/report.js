"use strict";
(() => {
  const search = document.getElementById("search");
  if (!search) return;
  const cards = [...document.querySelectorAll("details.figure")].map((card) => [card, card.textContent.toLowerCase()]);
  search.addEventListener("input", () => {
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [card, text] of cards) {
      const match = terms.every((term) => text.includes(term));
      card.hidden = !match;
      card.open = match && terms.length > 0;
      count += match;
    }
    document.querySelectorAll(".group").forEach((group) => { group.hidden = !group.querySelector("details:not([hidden])"); });
    document.getElementById("found").textContent = terms.length ? `${count} of ${cards.length} figures` : "";
  });
})();
