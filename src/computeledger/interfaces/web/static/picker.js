// Boxes that take one of many names open a list: names with what the facts say of them, found by any of their words.
// The pattern is that of a combobox whose list completes nothing by itself: what is typed stays until a choice is made.

import { byId, element, say } from "./dom.js";
import { rank } from "./names.js";

const MOST_FILE_BYTES = 256 * 1024;
const panel = byId("picker"), list = byId("picks"), hint = byId("picker-hint"), opener = byId("picker-file");
const narrow = matchMedia("(max-width: 56rem)");
const described = new Map(); // of a list: a promise of what it says

// choose(field) takes what now stands in a box
export function pickers({ form, controls, page, precision, fetched, choose }) {
  let field = null, active = -1, isReading = false, isTyped = false, before = ""; // what stood in the box when it was entered

  // of versions of one family the later first
  const newer = (one, other) => other.split("/").at(-1).replace("Meta-", "").localeCompare(one.split("/").at(-1).replace("Meta-", ""), "en", { numeric: true });

  // of a box that takes several: the piece that the caret stands in, and what is chosen already
  const between = () => field?.dataset.several ?? "";
  const pieces = (own) => own.value.split(own.dataset.several).map((one) => one.trim()).filter(Boolean);
  function asked(own) {
    const sign = own.dataset.several;
    if (!sign) return own.value.trim().toLowerCase();
    const at = own.selectionStart ?? own.value.length, end = own.value.indexOf(sign, at);
    return own.value.slice(own.value.lastIndexOf(sign, at - 1) + 1, end < 0 ? undefined : end).trim().toLowerCase();
  }
  const isNamed = (text, name, one) => [name, name.split("/").at(-1)].some((each) => each.toLowerCase() === text.toLowerCase()) || Boolean(one?.aliases?.includes(text.toLowerCase()));
  const isChosen = (name, one) => (between() ? pieces(field).some((text) => isNamed(text, name, one)) : name === field.value.trim());

  function facts(one) {
    if (!one) return "";
    if (!one.weights) return [one.chips, one.memory, one.bandwidth, one.rent].filter(Boolean).join(" · ");
    const format = precision();
    return `${one.size} · weights ${one.weights[format] ?? one.weights[""]} ${one.weights[format] && format ? `in ${format}` : "as stored"}`;
  }

  async function fill(asked) {
    const own = field, control = controls.get(own.name), name = own.dataset.list;
    draw(control, asked, {});
    if (!name) return;
    if (!described.has(name)) described.set(name, fetched(`/list/${name}`).catch(() => { described.delete(name); return {}; }));
    const known = await described.get(name);
    if (field === own) draw(control, asked, known);
  }

  function draw(control, asked, known) {
    const held = list.children[active]?.dataset.value;
    const ranked = control.choices.filter(Boolean).map((name) => [rank(name, known[name]?.aliases ?? [], asked), name])
      .filter(([place]) => place >= 0).sort(([a, one], [b, other]) => (between() && !asked ? isChosen(other, known[other]) - isChosen(one, known[one]) : 0) || a - b || (asked && control.list === "models" ? newer(one, other) : 0));
    list.replaceChildren(...ranked.map(([, name], i) => element("li", { role: "option", id: `pick-${i}`, "data-value": name,
      "aria-selected": String(isChosen(name, known[name])) }, element("span", { class: "pick-name" }, name), element("span", { class: "below" }, facts(known[name])))));
    hint.textContent = ranked.length ? "" : `None of ${control.choices.length} has this in its name.`;
    if (between()) hint.textContent += `${hint.textContent && " "}Several can be chosen; again takes one away.`;
    else if (control.list === "models") hint.textContent += `${hint.textContent && " "}Sizes work too (70B, 100B-A10B), and a config.json that is pasted or dropped on the box.`;
    opener.hidden = control.list !== "models" || Boolean(between());
    list.setAttribute("aria-multiselectable", String(between() !== ""));
    mark(held ? ranked.findIndex(([, name]) => name === held) : -1);
    if (!asked && !between()) list.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "center" });
    place();
  }

  function mark(to) {
    list.children[active]?.classList.remove("active");
    active = to;
    const one = list.children[active];
    one?.classList.add("active");
    one?.scrollIntoView({ block: "nearest" });
    if (one) field.setAttribute("aria-activedescendant", one.id); else field?.removeAttribute("aria-activedescendant");
  }

  function place() { // below the box, or above it where there is more room; on a phone over the upper part of the window
    const at = field.getBoundingClientRect(), below = innerHeight - at.bottom - 12, above = at.top - 12;
    if (narrow.matches) { panel.style.cssText = ""; return; }
    const isBelow = below >= 260 || below >= above;
    panel.style.cssText = `left:${at.left}px;width:${Math.max(at.width, 448)}px;max-height:${Math.min(isBelow ? below : above, 420)}px;`
      + (isBelow ? `top:${at.bottom + 4}px;bottom:auto` : `bottom:${innerHeight - at.top + 4}px;top:auto`);
  }

  function open(of, asked = "") {
    field = of;
    isTyped = asked !== "";
    active = -1;
    if (!panel.matches(":popover-open")) panel.showPopover();
    if (narrow.matches) field.closest(".control").scrollIntoView({ block: "start" }); // right below the list
    field.setAttribute("aria-expanded", "true");
    fill(asked);
  }

  function close() {
    if (!field) return;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
    field = null;
    panel.hidePopover();
  }

  // one more of several, in place of the piece that was typed for it; one that is chosen already goes
  async function pickAlso(name) {
    const own = field, known = own.dataset.list ? await described.get(own.dataset.list) : {};
    const left = pieces(own).filter((text) => !isNamed(text, name, known[name])), piece = isTyped ? asked(own) : "";
    const others = left.filter((text) => text.toLowerCase() !== piece);
    own.value = (left.length < pieces(own).length ? left : [...others, name]).join(`${own.dataset.several}${own.dataset.several === ";" ? " " : ""}`);
    own.focus({ preventScroll: true });
    own.setSelectionRange(own.value.length, own.value.length);
    choose(own);
    open(own);
  }

  function pick(name) {
    if (between()) { pickAlso(name); return; }
    const own = field;
    own.value = name;
    close();
    own.focus({ preventScroll: true });
    choose(own);
  }

  // what cannot be read is said at the box; the scenario stays as it is
  function complain(own, message) {
    const place = byId(`e-${own.name}`);
    place.textContent = message;
    place.hidden = false;
    own.setAttribute("aria-invalid", "true");
    say(message);
  }

  async function read(text, own) {
    close();
    isReading = true;
    try {
      const { model } = await fetched(`/config/${page}`, undefined, { method: "POST", body: text });
      own.value = model;
      choose(own);
    } catch (error) {
      complain(own, error.message ?? String(error));
    }
    isReading = false;
  }

  async function readFile(file, own) {
    if (file.size > MOST_FILE_BYTES) complain(own, `${file.name}: larger than 256 KiB, the most that is read of a config.json`);
    else read(await file.text(), own);
  }

  const of = (target) => target.closest?.('input[role="combobox"]');
  const ofModels = (target) => target.closest?.(".control")?.querySelector('input[data-list="models"]:not([data-several])');
  form.addEventListener("input", (event) => { const own = of(event.target); if (own) open(own, asked(own)); });
  form.addEventListener("click", (event) => { const own = of(event.target); if (own && field !== own) open(own); });
  form.addEventListener("focusin", (event) => { // select() would take the focus back
    const own = of(event.target);
    if (own && own !== field) before = own.value;
    if (own && !own.dataset.several) setTimeout(() => { if (document.activeElement === own) own.select(); });
  });
  form.addEventListener("focusout", (event) => { if (of(event.target) && !panel.contains(event.relatedTarget)) close(); });
  form.addEventListener("scroll", () => { if (field) place(); });
  form.addEventListener("keydown", (event) => {
    const own = of(event.target);
    if (!own || isReading) return;
    const isOpen = field === own, n = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) return open(own);
      const step = event.key === "ArrowDown" ? 1 : -1;
      return mark(active < 0 ? (step > 0 ? 0 : n - 1) : (active + step + n) % n);
    }
    if (isOpen && event.key === "Enter" && list.children[active]) { event.preventDefault(); event.stopPropagation(); return pick(list.children[active].dataset.value); }
    const only = isOpen && event.key === "Enter" && n === 1 && (isTyped || !own.dataset.several) && !/^[\d.]+[BT]/i.test(asked(own)) ? list.firstElementChild : null;
    if (only) { event.preventDefault(); event.stopPropagation(); return pick(only.dataset.value); }
    if (event.key === "Enter" || event.key === "Tab") return close();
    if (isOpen && event.key === "Escape") { event.preventDefault(); event.stopPropagation(); own.value = before; close(); }
  }, true);
  panel.addEventListener("pointerdown", (event) => { if (!event.target.closest("button")) event.preventDefault(); }); // the box keeps the focus
  list.addEventListener("click", (event) => { const one = event.target.closest("[role=option]"); if (one) pick(one.dataset.value); });
  opener.addEventListener("click", () => {
    const own = field, chooser = element("input", { type: "file", accept: ".json,application/json" });
    chooser.addEventListener("change", () => { if (chooser.files[0]) readFile(chooser.files[0], own); });
    close();
    chooser.click();
  });
  form.addEventListener("paste", (event) => {
    const own = ofModels(event.target), text = event.clipboardData.getData("text");
    if (own && event.target === own && /^\s*\{/.test(text)) { event.preventDefault(); read(text, own); }
  });
  form.addEventListener("dragover", (event) => { if (ofModels(event.target)) event.preventDefault(); });
  form.addEventListener("drop", (event) => {
    const own = ofModels(event.target), [file] = event.dataTransfer.files, text = event.dataTransfer.getData("text");
    if (!own || (!file && !/^\s*\{/.test(text))) return;
    event.preventDefault();
    if (file) readFile(file, own); else read(text, own);
  });
}
