// Giving an answer to someone else: an address that settles every box, so that defaults of a later version do not change
// it (a box that it does not name is empty), with the edition of prices that answered it; where only this computer has the address, the report goes instead.

import { byId, element } from "./dom.js";

const EDITION = "edition", REST = "rest", EMPTY = "empty";
const coarse = matchMedia("(pointer: coarse)");
export const isOwnHost = (host) => /^(localhost|127(\.\d+){3}|\[::1\])$/.test(host);

// the address of what the boxes say, each spelt, also where it stands at its default; but those that are empty, and were
// at first, are told together
export function wholeAddress({ page, controls, edition }, typed, others) {
  const said = controls.filter((one) => typed(one.name) || one.default);
  const query = new URLSearchParams(said.map((one) => [one.name, typed(one.name)]));
  for (const one of others) query.append("vs", one);
  if (said.length < controls.length) query.set(REST, EMPTY);
  query.set(EDITION, edition);
  return `${location.origin}/${page}?${query}`;
}

const mayBeEmpty = ({ kind, choices }) => kind !== "choice" || choices.includes("");

// what an address says of its edition and of boxes that it does not name leaves the query; a line where this app has
// another edition
export function editionNotice(query, { edition, controls }) {
  if (query.get(REST) === EMPTY) {
    for (const one of controls) if (!query.has(one.name) && mayBeEmpty(one)) query.set(one.name, "");
    query.delete(REST);
  }
  const theirs = query.get(EDITION);
  query.delete(EDITION);
  return theirs && theirs !== edition ? `Shared with the prices of ${theirs}; this app has those of ${edition}, so costs may differ.` : "";
}

// address() is what is given away, report(button) saves the report
export function sharing({ given, address, report }) {
  const button = byId("share"), place = byId("shared");
  const held = `all ${given.controls.length} boxes and the edition of prices (${given.edition})`;

  function tell(words, url) {
    const own = isOwnHost(location.hostname) ? [" It works only on this computer. To send the answer: ",
      element("button", { type: "button", class: "quiet", onclick: (event) => report(event.currentTarget) }, "Download report")] : [];
    const field = url && element("input", { type: "text", readonly: true, value: url, "aria-label": "address of this answer" });
    place.replaceChildren(words, ...own, ...(field ? [field] : []));
    place.hidden = false;
    byId("actions").hidePopover();
    place.scrollIntoView({ block: "nearest" });
    field?.select();
  }

  button.addEventListener("click", async () => {
    const url = address();
    if (coarse.matches && navigator.share && !isOwnHost(location.hostname)) {
      try {
        await navigator.share({ title: `${byId("headline").textContent} · Compute Ledger`, url });
        tell(`Shared the address of this answer, with ${held}.`);
        return;
      } catch (error) { if (error.name === "AbortError") return; } // the reader's choice; where it may not be, it is copied
    }
    try { await navigator.clipboard.writeText(url); } catch {
      tell(`Not copied, as the browser did not allow it. The address below has ${held}.`, url);
      return;
    }
    tell(`Copied the address of this answer, with ${held}.`);
  });
  return { forget: () => { place.hidden = true; } };
}
