"use strict";
(() => {
  const text = document.getElementById("search");
  const verdict = document.getElementById("verdict");
  const claims = [...document.querySelectorAll(".claim")].map((one) => [one, one.textContent.toLowerCase()]);
  const filter = () => {
    const terms = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const [one, words] of claims) {
      const match = (!verdict.value || one.dataset.verdict === verdict.value) && terms.every((term) => words.includes(term));
      one.hidden = !match;
      count += match;
    }
    document.querySelectorAll(".group").forEach((group) => { group.hidden = !group.querySelector(".claim:not([hidden])"); });
    document.getElementById("found").textContent = `${count} of ${claims.length} claims`;
  };
  text.addEventListener("input", filter);
  verdict.addEventListener("input", filter);
  // A link to a claim shows it even where the filter hides it.
  addEventListener("hashchange", () => {
    const target = document.querySelector(location.hash || "#none");
    if (target && target.hidden) { text.value = ""; verdict.value = ""; filter(); target.scrollIntoView(); }
  });
  filter();
  document.documentElement.style.setProperty("--sheet", JSON.stringify(document.title));
})();
