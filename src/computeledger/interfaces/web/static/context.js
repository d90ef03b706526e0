// On a phone what follows the headline takes three lines, and a button opens the others in their place.

import { byId } from "./dom.js";

const OPEN = "unclamped";

// tell() says of the words that now stand there whether some of them are out of sight
export function contextLines() {
  const text = byId("context"), button = byId("context-more");

  function open(isOpen) {
    text.classList.toggle(OPEN, isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
    button.firstElementChild.textContent = isOpen ? "less" : "more";
  }

  function tell() {
    const isOpen = text.classList.contains(OPEN);
    text.classList.remove(OPEN);
    button.hidden = text.scrollHeight <= text.clientHeight + 2;
    open(isOpen && !button.hidden);
  }

  button.addEventListener("click", () => open(!text.classList.contains(OPEN)));
  text.addEventListener("focusin", ({ target }) => { // a link below the third line
    const { bottom } = text.getBoundingClientRect();
    if (target.getBoundingClientRect().top >= bottom - 2 || text.scrollTop > 0) { text.scrollTop = 0; open(true); }
  });
  new ResizeObserver(tell).observe(text.parentElement);
  return { tell };
}
