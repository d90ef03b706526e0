"use strict";
(() => {
  const { figures, config, templates } = JSON.parse(document.getElementById("data").textContent);
  const canvases = [...document.querySelectorAll("[data-plot]")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

  const draw = (mode, width) => Promise.all(canvases.map((canvas) => {
    const key = `${chosen("quantity")}-${chosen("column")}${canvas.dataset.plot}`;
    const { data, layout } = figures[key];
    const size = width ? { width, autosize: false } : { autosize: true };
    return Plotly.react(canvas, data, { ...layout, ...size, template: templates[mode] }, config);
  }));
  const onScreen = () => draw(dark.matches ? "dark" : "light");

  if (canvases.length) {
    onScreen().then(() => { document.documentElement.dataset.drawn = canvases.length; });
    dark.addEventListener("change", onScreen);
    document.querySelectorAll(".choice input").forEach((one) => one.addEventListener("change", onScreen));
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
  }
})();
