// Working: a sheet at the foot of the window, which follows the sliders while it is open.

import { byId, element, root } from "./dom.js";

const { page } = JSON.parse(byId("data").textContent);
let explained = null, asker = null, isOther = false; // which figure, from which button, of the scenario compared with
let scenarios = { now: () => new URLSearchParams(), other: () => null }, fetched = null;

// now() and other() give the queries of the present scenario and of the one beside it, null where there is none
export function workingOf(asked, fetch) {
  scenarios = asked;
  fetched = fetch;
  byId("close-working").addEventListener("click", closeWorking);
}

export const isExplaining = () => explained !== null;

// an answer is shown: what is explained follows it, and an address may open at a figure
export function followWorking() {
  if (explained !== null) work(explained);
  else if (location.hash.startsWith("#working=")) work(location.hash.slice(9));
}

export async function work(key, button = null) {
  explained = key;
  if (button) { asker = button; isOther = button.closest("#pinned") !== null; }
  isOther &&= scenarios.other() !== null;
  byId("working-title").textContent = isOther ? "How the other scenario is worked out" : "How it is worked out";
  const place = byId("working-list");
  if (byId("working").hidden) { // it opens at the press: the figures may take a moment
    place.textContent = "Working it out…";
    byId("working").hidden = false;
    root.classList.add("explaining");
  }
  try {
    const query = isOther ? scenarios.other() : scenarios.now();
    query.set("working", "on");
    const { working } = await fetched(`/view/${page}?${query}`);
    if (explained === null) return;
    const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.name));
    const own = (one) => one.name === key || one.name.endsWith(`.${key}`);
    const rank = (one) => (one.name === `total.${key}` ? 0 : own(one) ? 1 : 2); // a sum stands above what it is of
    const order = [...working].sort((one, other) => rank(one) - rank(other));
    const figures = new Map(working.map((one) => [one.name, one]));
    place.replaceChildren(...order.map((one) => step(one, own(one) || (!button && open.has(one.name)), figures)));
    window.explainTerms(place);
  } catch (error) {
    place.textContent = error.message ?? String(error);
  }
  byId("working").hidden = false;
  if (!isOther) history.replaceState(history.state, "", `${location.pathname}${location.search}#working=${key}`);
  root.classList.add("explaining");
  if (button) { byId("working").scrollTop = 0; byId("working").focus({ preventScroll: true }); }
}

export function closeWorking() {
  explained = null;
  if (location.hash) history.replaceState(history.state, "", location.pathname + location.search);
  byId("working").hidden = true;
  root.classList.remove("explaining");
  // the button may have been drawn anew meanwhile
  const label = asker?.getAttribute("aria-label");
  const again = [...byId(isOther ? "pinned" : "now").querySelectorAll(".why")].find((one) => one.getAttribute("aria-label") === label);
  (asker?.isConnected ? asker : again)?.focus({ preventScroll: true });
}

function source(term) {
  if (!term.source) return term.ground ? [term.ground] : [];
  const title = term.href ? element("a", { href: term.href, target: "_blank", rel: "noreferrer" }, term.source) : term.source;
  return [element("span", {}, title, term.ground ? `, ${term.ground}` : "")];
}

// an input that is itself worked out opens below its row, down to what somebody published
function inputName(term, figures) {
  const figure = figures.get(term.of);
  if (!figure) return term.name;
  const button = element("button", { type: "button", class: "by deeper-by", "aria-expanded": "false", onclick: () => {
    const row = button.closest("tr"), opened = button.getAttribute("aria-expanded") === "true";
    if (opened) row.nextElementSibling.remove();
    else row.after(element("tr", { role: "row", class: "deeper" }, element("td", { role: "cell", colspan: "4" }, step(figure, true, figures))));
    button.setAttribute("aria-expanded", String(!opened));
  } }, term.name);
  return button;
}

function step(one, open, figures) {
  const rows = one.terms.map((term) => element("tr", { role: "row" }, element("th", { scope: "row", role: "rowheader" }, inputName(term, figures)),
    element("td", { role: "cell", class: "number", "data-name": "value" }, term.text, term.band ? element("span", { class: "below" }, term.band) : null),
    element("td", { role: "cell", "data-name": "kind" }, { figure: "worked out", plan: "input" }[term.origin] ?? term.origin),
    element("td", { role: "cell", "data-name": "source" }, ...source(term))));
  return element("details", { open, "data-name": one.name }, element("summary", {}, element("b", {}, one.title), ` ${one.text} `,
    element("span", { class: "quiet" }, one.band)),
    element("p", { class: "formula" }, `= ${one.formula}`),
    rows.length ? element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `inputs of ${one.title}` },
      element("table", { role: "table", class: "cards" }, element("thead", { role: "rowgroup" }, element("tr", { role: "row" },
        ...["input", "value", "kind", "source"].map((name, i) =>
          element("th", { scope: "col", role: "columnheader", class: i === 1 ? "number" : null }, name)))),
        element("tbody", { role: "rowgroup" }, ...rows))) : null);
}

export const why = (key, label) => element("button", { type: "button", class: "why", onclick: (event) => work(key, event.currentTarget),
  "aria-label": `how ${label} is worked out` }, "How?");
