// A limit on a time holds for a share of the requests, which is chosen beside its box: both together are the text that a
// command takes, p95:2s. A bare number in such a box gets its unit, unless that stands beside it.

import { element } from "./dom.js";

// the ways in which a command reads a share: p95:2s, P95 2s, 95 %: 2s, p95<2s
const WRITTEN = /^\s*(?:p\s*(\d[\d.]*)\s*%?|(\d[\d.]*)\s*%)\s*[:<\u2264\s]\s*(\S.*)$/is;
const BARE = /^\d[\d.,]*$/;

// the share and the time of a limit; none of a text that states none
function apart(text) {
  const [, one, other, rest] = WRITTEN.exec(text) ?? [];
  return rest === undefined ? [null, text] : [`p${one ?? other}`, rest.trim()];
}

export const sharesOf = (holder) => {
  const chosen = (name) => holder(name)?.querySelector("select.share") ?? null;

  // what a box and the share beside it say together
  function joined(name, text) {
    const select = chosen(name);
    return !select || !text || !select.value || apart(text)[0] ? text : `${select.value}:${text}`;
  }

  // what stands in a box whose whole text is known; the share goes where it is chosen
  function put(name, text) {
    const select = chosen(name);
    if (!select) return text;
    const [share, rest] = apart(text);
    if (!text) { select.selectedIndex = 0; return text; }
    const value = share ?? "";
    if (![...select.options].some((one) => one.value === value)) select.add(element("option", { value }, share ? `${share.slice(1)} % of requests` : "each, with a goodput"));
    select.value = value;
    return rest;
  }

  // what was typed, as the box is to show it
  function tidied(one, text) {
    const [share, rest] = apart(text);
    if (!one.shares.length || one.kind !== "text" || !BARE.test(rest)) return text;
    return `${share ? `${share}:` : ""}${rest}${one.unit}`;
  }

  return { joined, put, tidied };
};
