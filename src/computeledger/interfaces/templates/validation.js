"use strict";
(() => {
  const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;
  globalThis.plotKey = (canvas) => `${chosen("quantity")}-${chosen("column")}${canvas.dataset.plot}`;
  document.querySelectorAll(".choice input").forEach((one) =>
    one.addEventListener("change", () => dispatchEvent(new Event("redraw"))));
})();
