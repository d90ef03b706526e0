"use strict";
// Draws every plot in the reader's colours; on paper they are light and as wide as a sheet.
(() => {
  const root = document.documentElement;
  const read = () => JSON.parse(document.getElementById("data").textContent);
  const { config, templates } = read();
  let { figures } = read();
  const canvases = [...document.querySelectorAll("[data-plot]")];
  const variant = (canvas) => canvas.parentElement.querySelector("select")?.value;
  const keyOf = (canvas) => [canvas.dataset.plot, variant(canvas)].filter(Boolean).join("/");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const onPaper = (layout) => ({ width: 670, height: Math.min(layout.meta?.paper ?? layout.height, 900), autosize: false });

  const draw = (mode, sized) => Promise.all(canvases.map((canvas) => {
    const { data, layout } = figures[keyOf(canvas)];
    return Plotly.react(canvas, data, { ...layout, ...sized(layout), template: templates[mode] }, config);
  }));
  const onScreen = () => draw(dark.matches ? "dark" : "light", () => ({ autosize: true }));

  root.style.setProperty("--sheet", JSON.stringify(document.title));
  onScreen().then(() => { root.dataset.drawn = canvases.length; });
  dark.addEventListener("change", onScreen);
  document.querySelectorAll("figure select").forEach((one) => one.addEventListener("change", onScreen));
  addEventListener("renewed", () => { ({ figures } = read()); onScreen(); });
  addEventListener("beforeprint", () => { draw("light", onPaper); });
  addEventListener("afterprint", onScreen);
})();
