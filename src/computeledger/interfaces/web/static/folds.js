// What a phone has no room for is closed under its title there, and open elsewhere.

import { byId, element } from "./dom.js";

const narrow = matchMedia("(max-width: 56rem)");
narrow.addEventListener("change", () => { for (const one of document.querySelectorAll(".folds")) one.open = !narrow.matches; });

// the title and what it is about, in a part that closes where that is asked for
export function foldsOnPhone(isDetail, title, ...parts) {
  return isDetail ? [element("details", { class: "folds", open: !narrow.matches }, element("summary", {}, title), ...parts)] : [typeof title === "string" ? null : title, ...parts].filter(Boolean);
}

// what a reader asks for after the first four figures: the others, and what is said of the answer in a line each
export const MOST_TILES = 4;
export function further(tiles, nFacts) {
  const said = [tiles.length && `${tiles.length} more ${tiles.length === 1 ? "figure" : "figures"}`, nFacts && `${nFacts} ${nFacts === 1 ? "note" : "notes"}`].filter(Boolean).join(" and ");
  return element("details", { class: "further", hidden: !said }, element("summary", {}, said), tiles.length ? element("dl", { class: "tiles four" }, ...tiles) : null, element("dl", { class: "facts" }));
}
