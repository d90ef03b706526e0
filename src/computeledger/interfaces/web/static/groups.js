// Boxes stand in groups. A closed group says in one line what is set in it; one with a box that is not at its default is
// marked. A search shows the boxes whose names or hints have its words, and opens their groups.

import { shown } from "./boxes.js";
import { byId, element } from "./dom.js";

const MOST_SAID = 4;

export function groupsOf({ form, controls, typed, usual, placeholder }) {
  const groups = [...form.querySelectorAll("details.group")].map((place) => ({ place, set: place.querySelector(".set"),
    names: [...place.querySelectorAll(".control")].map((one) => one.dataset.name) }));
  const holders = [...form.querySelectorAll(".control")];

  // what a box says, by its label; nothing where it says nothing: none of something, or one of it
  function words(name, text) {
    const one = controls.get(name);
    if (one.kind === "switch") return text ? one.label : "";
    return text && text !== "0" && text !== "1" ? `${one.label} ${shown(text)}${one.kind === "number" && one.unit && !one.label.toLowerCase().startsWith(one.unit.toLowerCase()) ? ` ${one.unit}` : ""}` : "";
  }

  function tell() {
    const defaults = usual();
    const isChanged = (name) => typed(name) !== defaults[name];
    for (const one of holders) one.classList.toggle("changed", isChanged(one.dataset.name));
    for (const { place, set, names } of groups) {
      const changed = names.filter(isChanged);
      place.classList.toggle("changed", changed.length > 0);
      const said = changed.length ? changed.map((name) => words(name, typed(name)) || `${controls.get(name).label} ${typed(name) || "left out"}`)
        : names.map((name) => words(name, typed(name) || placeholder(name))).filter(Boolean).slice(0, MOST_SAID);
      set.replaceChildren(...(changed.length ? [element("span", { class: "unseen" }, "changed: ")] : []), said.join(", ") || "defaults");
    }
  }

  // a search, and what was open before it
  let before = null;
  byId("find-box")?.addEventListener("input", (event) => {
    const asked = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    before ??= groups.map(({ place }) => place.open);
    let count = 0;
    // labels come first; hints and the names of groups count only where no label has the words
    const has = (text) => asked.every((word) => text.toLowerCase().includes(word));
    const texts = holders.map((one) => { const { label, help, group } = controls.get(one.dataset.name); return [`${label} ${one.dataset.name}`, `${label} ${one.dataset.name} ${help}`, `${label} ${help} ${group}`]; });
    const level = [0, 1, 2].find((at) => holders.some((one, i) => !one.hidden && has(texts[i][at]))) ?? 2;
    for (const [i, one] of holders.entries()) {
      const isFound = has(texts[i][level]);
      one.classList.toggle("missed", !isFound);
      count += isFound && !one.hidden;
    }
    for (const one of form.querySelectorAll("fieldset")) one.classList.toggle("missed", !one.querySelector(".control:not(.missed)"));
    groups.forEach(({ place }, i) => { place.open = asked.length ? Boolean(place.querySelector(".control:not(.missed)")) : before[i]; });
    if (!asked.length) before = null;
    if (asked.length) form.querySelector(".control:not(.missed):not([hidden])")?.scrollIntoView({ block: "nearest" });
    byId("found-boxes").textContent = !asked.length ? "" : count ? `${count} found` : "No setting has these words.";
  });

  // a box that a reader is led to is in sight
  const reveal = (field) => { const place = field.closest("details.group"); if (place) place.open = true; };
  return { tell, reveal };
}
