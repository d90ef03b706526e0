// On a phone what follows the headline takes three lines, and a button opens the others in their place; whether it is
// right takes two. Neither ends within a word.

import { byId } from "./dom.js";

const OPEN = "unclamped", CUT = "cut";
const narrow = matchMedia("(max-width: 56rem)");

// tell() says of the words that now stand there whether some of them are out of sight
export function contextLines() {
  const text = byId("context"), button = byId("context-more"), evidence = byId("evidence");
  const isCut = (lines) => lines.scrollHeight > lines.clientHeight + 2;

  function open(isOpen) {
    text.classList.toggle(OPEN, isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
    button.firstElementChild.textContent = isOpen ? "less" : "more";
  }

  function tellOfEvidence() {
    const lines = evidence.firstElementChild;
    lines.classList.remove(CUT);
    lines.classList.toggle(CUT, !evidence.open && isCut(lines));
  }

  function tell() {
    if (!narrow.matches && button.hidden && !evidence.firstElementChild.classList.contains(CUT)) return; // nothing is cut: measuring would lay out the page once more
    const isOpen = text.classList.contains(OPEN);
    text.classList.remove(OPEN, CUT);
    button.hidden = !isCut(text);
    text.classList.toggle(CUT, !button.hidden); // the last line ends before the button
    open(isOpen && !button.hidden);
    tellOfEvidence();
  }

  evidence.addEventListener("toggle", tellOfEvidence);
  button.addEventListener("click", () => open(!text.classList.contains(OPEN)));
  text.addEventListener("focusin", ({ target }) => { // a link below the third line
    const { bottom } = text.getBoundingClientRect();
    if (target.getBoundingClientRect().top >= bottom - 2 || text.scrollTop > 0) { text.scrollTop = 0; open(true); }
  });
  new ResizeObserver(tell).observe(text.parentElement);
  return { tell };
}
