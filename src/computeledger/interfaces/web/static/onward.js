// Links to the next pages take the scenario along: boxes of the same meaning, as far as the next page has them.

import { byId } from "./dom.js";

// typed(name) is what a box says
export function onward(typed) {
  for (const link of byId("onward").querySelectorAll("a[data-carried]")) {
    const query = new URLSearchParams();
    for (const [own, theirs] of Object.entries(JSON.parse(link.dataset.carried))) {
      const text = typed(own);
      if (text && !/[,;]/.test(text)) query.set(theirs, text); // of a list no one is meant
    }
    link.href = `${link.pathname}${query.size ? `?${query}` : ""}`;
  }
}
