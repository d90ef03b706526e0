// Whether the answer that is shown is that of the boxes. One that is not is faded, and a word beside the page's name says
// why; nothing moves. Answers that come at once, as in a drag, never fade.

import { byId } from "./dom.js";

const FADES_MS = 200;
let soon = 0;

const wear = (name) => { for (const one of ["updating", "stale"]) byId("answer").classList.toggle(one, one === name); };

export function tellState(words) {
  byId("state").textContent = words;
  byId("state").hidden = !words;
}

// a question is on its way; the answer before it stays, faded, once it takes longer than a moment
export function updating(isFirst) {
  clearTimeout(soon);
  byId("answer").setAttribute("aria-busy", "true");
  soon = setTimeout(() => { wear("updating"); tellState(isFirst ? "Computing\u2026" : "Updating\u2026"); }, FADES_MS);
}

// no question is on its way: what is shown is of the boxes, or words say of what it is
export function rests(isCurrent, words = "") {
  clearTimeout(soon);
  byId("answer").removeAttribute("aria-busy");
  wear(isCurrent ? "" : "stale");
  tellState(words);
}
