// A box above the answer, and presets that narrow what it finds: they keep its words, and a way back leaves them out.

export function searching(search, presets, same) {
  const box = search.querySelector("input"), all = search.querySelector("[data-all]");
  const withWords = (preset) => (box.value ? { [box.name]: box.value, ...preset } : preset);
  return {
    tell() {
      for (const one of search.querySelectorAll("[data-preset]")) one.setAttribute("aria-pressed", String(same(withWords(presets[one.dataset.preset]))));
      all.hidden = !box.value;
    },
    chosen: (button) => (button === all ? {} : button.dataset.preset in presets ? withWords(presets[button.dataset.preset]) : null),
  };
}
