// What a phone has no room for is closed under its title there, and open elsewhere.

import { element } from "./dom.js";

const narrow = matchMedia("(max-width: 56rem)");
narrow.addEventListener("change", () => { for (const one of document.querySelectorAll(".folds")) one.open = !narrow.matches; });

// the title and what it is about, in a part that closes where that is asked for
export function foldsOnPhone(isDetail, title, ...parts) {
  return isDetail ? [element("details", { class: "folds", open: !narrow.matches }, element("summary", {}, title), ...parts)] : [typeof title === "string" ? null : title, ...parts].filter(Boolean);
}
