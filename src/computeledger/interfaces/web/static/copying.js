// Copying a text: a button says that it did; where the browser refuses, the text stands below the button to be copied by hand.

import { element, say } from "./dom.js";

const SAYS_MS = 5000;

export async function copy(text, what, button) {
  const row = button.closest(".row") ?? button;
  row.nextElementSibling?.classList.contains("by-hand") && row.nextElementSibling.remove();
  try { await navigator.clipboard.writeText(text); } catch {
    const field = element("input", { type: "text", readonly: true, value: text, "aria-label": what });
    row.after(element("p", { class: "shared hint by-hand" }, "Not copied: the browser did not allow it. Copy it from here:", field));
    field.select();
    say(`${what} not copied: the browser did not allow it`);
    return;
  }
  say(`${what} copied`);
  if (button.dataset.said) return;
  button.dataset.said = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = button.dataset.said; delete button.dataset.said; }, SAYS_MS);
}
