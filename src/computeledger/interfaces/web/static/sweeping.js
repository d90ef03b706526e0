// A sweep: one figure of the answer against one box, over the bounds of its slider. The server asks each value as if it
// stood in the box, and says how many are done; leaving or Stop ends the work there.

import { byId, element } from "./dom.js";
import { fetched } from "./fetching.js";
import { seen, want } from "./plots.js";
import { picture } from "./taking.js";

// query() is that of the boxes, below(address) what stands under a picture
export function sweeps({ page, controls, form, query, matters, below, fileName, embed }) {
  const place = byId("sweep"), figure = place.querySelector("#sweep-figure"), box = place.querySelector("#sweep-box");
  const button = place.querySelector("#sweep-draw"), state = place.querySelector("#sweep-state"), drawn = place.querySelector(".plots");
  let asking = null, shownFor = null;

  const numbers = controls.filter((one) => one.kind === "number");
  const labels = numbers.map((one) => one.label);
  const nameOf = (one) => (labels.filter((label) => label === one.label).length > 1 && one.group ? `${one.group}: ${one.label}` : one.label);

  // what can be drawn of an answer; who has drawn something is told once it is of another scenario
  function follow(view) {
    const figures = view.tiles.filter((one) => one.value !== null).map((one) => one.label), boxes = numbers.filter(matters);
    place.hidden = !figures.length || !boxes.length;
    fill(figure, figures.map((label) => [label, label]));
    fill(box, boxes.map((one) => [one.name, nameOf(one)]));
    if (shownFor !== null) state.textContent = shownFor === rest() ? "" : "The scenario has changed since: draw it again.";
  }

  function fill(select, options) {
    const held = select.value;
    if ([...select.options].map((one) => one.value).join("|") === options.map(([value]) => value).join("|")) return;
    select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    if (options.some(([value]) => value === held)) select.value = held;
  }

  // the scenario without the box that is swept
  function rest() {
    const own = query();
    own.delete(box.value);
    return own.toString();
  }

  async function draw() {
    if (asking) { asking.abort(); return; }
    asking = new AbortController();
    button.textContent = "Stop";
    place.setAttribute("aria-busy", "true");
    const asked = query(), of = rest();
    asked.set("sweep", box.value);
    asked.set("figure", figure.value);
    let far = 0, before = -1;
    const tell = ({ done, total }) => { far = Math.max(far, done); state.textContent = total > 1 ? `${done} of ${total} values` : "Computing."; };
    state.textContent = "Computing.";
    try {
      let found = null;
      while (!found) { // what was answered within a question's time is kept: the next one goes on behind it
        try { found = await fetched(`/sweep/${page}?${asked}`, asking.signal, {}, tell); } catch (error) {
          if (asking.signal.aborted || !error.message?.startsWith("stopped:") || far <= before) throw error;
          before = far;
          far = 0;
        }
      }
      show(found, asked);
      shownFor = of;
      state.textContent = "";
    } catch (error) {
      state.textContent = asking.signal.aborted ? "Stopped." : error.message ?? String(error);
    }
    asking = null;
    button.textContent = "Draw";
    place.removeAttribute("aria-busy");
  }

  function show({ plot, command, missing }, asked) {
    const canvas = element("div", { class: "canvas", role: "img", "aria-label": `${plot.title}. ${plot.caption}` });
    const take = (format) => element("button", { type: "button", class: "quiet", "aria-label": `${plot.title} as ${format.toUpperCase()}`,
      onclick: () => picture(canvas, format, { title: plot.title, name: fileName(format, "sweep"), below: below() }) }, format.toUpperCase());
    for (const old of drawn.querySelectorAll(".canvas")) seen.unobserve(old);
    drawn.replaceChildren(element("figure", { "data-plot": "sweep", class: "wide" }, element("h3", {}, plot.title), canvas,
      element("figcaption", {}, plot.caption),
      missing.length ? element("details", { class: "missing" }, element("summary", {}, `${missing.length} values have no answer`), element("ul", {}, ...missing.map((line) => element("li", {}, line)))) : null,
      element("p", { class: "command" }, element("code", {}, command)), element("p", { class: "row buttons" }, take("png"), take("svg"), embed(plot, () => asked))));
    seen.observe(canvas);
    want(canvas, plot.figure);
  }

  button.addEventListener("click", draw);
  form.addEventListener("click", (event) => {
    const from = event.target.closest("button.sweep-by");
    if (!from) return;
    box.value = from.closest(".control").dataset.name;
    form.dispatchEvent(new CustomEvent("sweep"));
    place.scrollIntoView({ block: "start" });
    if (!asking) draw();
    button.focus({ preventScroll: true });
  });
  return { follow };
}
