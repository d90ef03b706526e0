// Three hints on the first visit, one at a time, beside what they are about; they cover nothing that is needed, wait for
// nobody, and do not come back. Escape or Close ends them, First steps at the foot of the page shows them again.

import { byId, element } from "./dom.js";

const KEY = "first-steps";
const STEPS = [
  ["Change something.", "Move a slider or type in a box: the answer follows.", () => narrow.matches ? byId("open-controls") : document.querySelector(".control")],
  ["See how sure it is.", "Below every figure stands its 90 % interval; How? shows its formula, its inputs and their sources.", () => document.querySelector("#now .tiles > div") ?? byId("headline")],
  ["Take it along.", "Share copies an address that holds every box; Report saves the answer as one file.", () => byId(narrow.matches ? "open-actions" : "share")],
];
const narrow = matchMedia("(max-width: 56rem)");
let card = null, at = 0, marked = null;

export const isTouring = () => card !== null;

export function endTour() {
  if (!card) return;
  const held = card.contains(document.activeElement);
  card.remove();
  card = null;
  marked?.classList.remove("toured");
  try { localStorage.setItem(KEY, "seen"); } catch { /* a browser that keeps nothing shows them again */ }
  if (held) byId("answer").focus({ preventScroll: true });
}

// what a hint is about is in sight, and on a phone above the hint
function reveal(node) {
  const { top, bottom } = node.getBoundingClientRect(), end = narrow.matches ? card.getBoundingClientRect().top : innerHeight;
  if (top < 72 || bottom > end) node.scrollIntoView({ block: "center" });
}

function step(to) {
  at = to;
  const [title, text, find] = STEPS[at], isLast = at === STEPS.length - 1;
  marked?.classList.remove("toured");
  marked = find();
  marked?.classList.add("toured");
  reveal(marked);
  card.querySelector("b").textContent = title;
  card.querySelector(".tour-text").textContent = ` ${text}`;
  card.querySelector(".tour-at").textContent = `${at + 1} of ${STEPS.length}`;
  card.querySelector(".tour-next").textContent = isLast ? "Done" : "Next";
}

export function startTour() {
  endTour();
  card = element("aside", { class: "tour", "aria-label": "First steps" },
    element("p", { role: "status" }, element("b", {}), element("span", { class: "tour-text" })),
    element("p", { class: "row" }, element("span", { class: "hint tour-at" }), element("button", { type: "button", class: "quiet", onclick: endTour }, "Close"),
      element("button", { type: "button", class: "quiet tour-next", onclick: () => (at === STEPS.length - 1 ? endTour() : step(at + 1)) })));
  byId("answer").after(card);
  step(0);
}

// on a first visit, once there is an answer; not for a program that drives the browser
export function greet() {
  if (card || navigator.webdriver) return;
  try { if (localStorage.getItem(KEY)) return; } catch { return; }
  startTour();
}
