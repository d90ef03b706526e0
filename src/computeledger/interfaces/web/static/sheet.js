// On narrow screens the controls are a sheet at the foot of the window; the headline stays in sight above it.
// Elsewhere they stand before the answer. Their place in the page is the one they are seen in: Tab follows it.
const root = document.documentElement;
const narrow = matchMedia("screen and (max-width: 56rem)");

// guard() puts one more step before the present one, so that the browser's own back has something to close
export function controlsSheet({ form, opener, closer, headline, guard }) {
  const isOpen = () => root.classList.contains("adjusting");
  const starts = form.querySelector(".row"), [finder, rarely] = [".find-box", ".kept, .paste"].map((which) => [...form.querySelectorAll(which)]);
  let isWalking = false, isGuarded = false;

  function arrange() {
    const held = form.contains(document.activeElement) ? document.activeElement : null;
    root.classList.remove("adjusting");
    if (narrow.matches) form.parentElement.append(form); else form.parentElement.prepend(form);
    // in the sheet the first boxes are in sight at once: what is asked for less often stands at its end
    if (narrow.matches) { starts.after(...finder); form.append(...rarely); } else form.querySelector(".buttons").after(...rarely, ...finder);
    opener.setAttribute("aria-expanded", "false");
    if (held) (narrow.matches ? opener : held).focus({ preventScroll: true });
  }

  function open(first = form) {
    if (!narrow.matches) return;
    if (!isOpen()) {
      if (!history.state?.depth && !history.state?.sheet) { guard(); isGuarded = true; }
      root.classList.add("adjusting");
      opener.setAttribute("aria-expanded", "true");
      scrollBy(0, Math.max(0, headline.getBoundingClientRect().top));
    }
    first.focus({ preventScroll: first === form });
  }

  function close() {
    if (!isOpen()) return;
    root.classList.remove("adjusting");
    opener.setAttribute("aria-expanded", "false");
    opener.focus({ preventScroll: true });
  }

  // whether a step of the browser's history was about the sheet alone: its own back closes the sheet and leaves the
  // scenario; the step that was put there for it is passed over once the sheet is closed
  function takes(to, depth) {
    const isBack = to !== null && (to.depth < depth || (isGuarded && depth === 0 && !to.sheet));
    const isOwn = isWalking;
    isWalking = false;
    if (!isBack || isOwn) return false;
    if (isOpen()) { history.forward(); close(); return true; }
    if (depth === 0) { history.back(); return true; }
    return false;
  }

  narrow.addEventListener("change", arrange);
  opener.addEventListener("click", () => open());
  closer.addEventListener("click", close);
  arrange();
  return { isOpen, open, close, takes, walk: () => { isWalking = true; } };
}
