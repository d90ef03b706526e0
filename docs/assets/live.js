// Draws the live plots of a page, follows their sliders, and the light or dark scheme.
"use strict";
for (const figure of document.querySelectorAll("figure.live")) {
  const spec = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const place = figure.querySelector(".live-plot");
  const slider = figure.querySelector("input");
  const draw = () => {
    const at = slider ? Number(slider.value) : 0;
    const scheme = document.body.getAttribute("data-md-color-scheme");
    if (slider) {
      figure.querySelector("output").textContent = spec.words[at];
      slider.setAttribute("aria-valuetext", spec.words[at]);
    }
    const layout = { ...spec.layout, template: spec.themes[scheme] || spec.themes.default };
    Plotly.react(place, spec.positions[at], layout, spec.config);
  };
  if (slider) slider.addEventListener("input", draw);
  new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
  draw();
}
