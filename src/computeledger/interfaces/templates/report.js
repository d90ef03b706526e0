"use strict";
(() => {
  const { figures, config, templates } = JSON.parse(document.getElementById("data").textContent);
  const canvases = [...document.querySelectorAll("[data-plot]")];
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const draw = (mode, width) =>
    canvases.map((canvas) => {
      const { data, layout } = figures[canvas.dataset.plot];
      const size = width ? { width, autosize: false } : { autosize: true };
      return Plotly.react(canvas, data, { ...layout, ...size, template: templates[mode] }, config);
    });
  const onScreen = () => draw(dark.matches ? "dark" : "light");

  Promise.all(onScreen()).then(() => { document.documentElement.dataset.drawn = canvases.length; });
  dark.addEventListener("change", onScreen);

  // Paper is light, as wide as a page, and shows what is folded away.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    folded.forEach((one) => { one.open = true; });
    draw("light", 670);
  });
  addEventListener("afterprint", () => {
    folded.forEach((one) => { one.open = false; });
    onScreen();
  });

  const search = document.getElementById("search");
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
