// Scenarios that are kept by name in this browser, and which of them the present one is compared with. A link carries
// those that are compared: as its "vs", a name and the boxes, or the boxes alone.

import { element } from "./dom.js";

export const MOST_COMPARED = 6;
const MOST_NAME = 60;

export const written = ({ name, query }) => (name ? `${name}|${query}` : query);

export function read(text) {
  const at = text.lastIndexOf("|"); // a query has none: it is written %7C there
  return { name: text.slice(0, Math.max(at, 0)).slice(0, MOST_NAME), query: text.slice(at + 1) };
}

// present() is the query of the boxes; compared() those compared with, compare(list) changes them; open(query) fills the boxes
export function keptScenarios({ page, place, present, compared, compare, open }) {
  const key = `scenarios:${page}`, list = place.querySelector("ul"), field = place.querySelector("input"), hint = place.querySelector(".help");
  let kept = [], renamed = null;
  try { kept = JSON.parse(localStorage.getItem(key) ?? "[]").filter(({ name, query }) => typeof name === "string" && typeof query === "string"); } catch { /* what is no list is none */ }

  const store = () => localStorage.setItem(key, JSON.stringify(kept));
  const isAt = (one) => compared().some((other) => written(other) === written(one));
  const without = (one) => compared().filter((other) => written(other) !== written(one));

  function save() {
    const name = field.value.trim().replaceAll("|", "/").slice(0, MOST_NAME) || `Scenario ${kept.length + 1}`;
    const old = kept.find((one) => one.name === name), one = { name, query: present() };
    kept = old ? kept.map((each) => (each === old ? one : each)) : [...kept, one];
    store();
    field.value = "";
    if (old && isAt(old)) compare([...without(old), one]); else show();
  }

  function remove(one) {
    kept = kept.filter((each) => each !== one);
    store();
    if (isAt(one)) compare(without(one)); else show();
    field.focus();
  }

  function rename(one, name) {
    renamed = null;
    const said = name.trim().replaceAll("|", "/").slice(0, MOST_NAME);
    if (!said || said === one.name || kept.some((each) => each.name === said)) return show();
    const next = { ...one, name: said };
    kept = kept.map((each) => (each === one ? next : each));
    store();
    if (isAt(one)) compare(compared().map((other) => (written(other) === written(one) ? next : other))); else show();
  }

  const quiet = (text, label, onclick) => element("button", { type: "button", class: "quiet", "aria-label": label, onclick }, text);

  function row(one) {
    const isKept = kept.includes(one), checked = isAt(one);
    const box = element("input", { type: "checkbox", checked, disabled: !checked && compared().length >= MOST_COMPARED, "aria-label": `compare with ${one.name}`,
      onchange: () => compare(box.checked ? [...compared(), one] : without(one)) });
    const tick = element("label", { class: "tick" }, box);
    if (renamed === one) {
      const name = element("input", { type: "text", value: one.name, maxlength: MOST_NAME, "aria-label": `new name of ${one.name}`,
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== "Escape") return;
          event.preventDefault();
          event.stopPropagation();
          rename(one, event.key === "Enter" ? name.value : "");
        } });
      return element("li", {}, tick, name, quiet("OK", "take the new name", () => rename(one, name.value)));
    }
    return element("li", {}, tick, element("button", { type: "button", class: "by", title: "open", onclick: () => open(one.query) }, one.name),
      ...(isKept ? [quiet("Rename", `rename ${one.name}`, () => { renamed = one; show(); list.querySelector("input[type=text]").select(); }),
        quiet("\u00d7", `delete ${one.name}`, () => remove(one))]
        : [quiet("Keep", `keep ${one.name}`, () => { kept = [...kept, { ...one }]; store(); show(); })]));
  }

  function show() {
    const linked = compared().filter((one) => one.name && !kept.some((each) => written(each) === written(one)));
    const now = JSON.stringify([kept, linked, compared(), kept.indexOf(renamed)]);
    if (list.dataset.drawn !== now) list.replaceChildren(...[...kept, ...linked].map(row)); // a tap on what is redrawn is lost
    list.dataset.drawn = now;
    place.querySelector("summary span").textContent = kept.length ? ` (${kept.length})` : "";
    hint.textContent = compared().length >= MOST_COMPARED ? `${MOST_COMPARED} are compared at once; uncheck one to check another.`
      : kept.length + linked.length ? "Those checked are compared with the present one, here and in the link. They are kept in this browser." : "Kept in this browser, by name.";
  }

  place.querySelector("#keep").addEventListener("click", save);
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); event.stopPropagation(); save(); } });
  show();
  return { show };
}
