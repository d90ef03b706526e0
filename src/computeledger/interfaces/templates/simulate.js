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
  addEventListener("beforeprint", () => draw("light", 670));
  addEventListener("afterprint", onScreen);
})();
