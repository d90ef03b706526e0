// One page of the app: controls become an address, the address becomes an answer, the answer becomes tiles and plots.
// Nothing is computed here: the server answers with texts and finished drawings.

import { fetched as fetchedFrom } from "./fetching.js";
import { controlsSheet } from "./sheet.js";
import { parts, unbroken } from "./headline.js";
import { dress, theme } from "./theme.js";

const given = JSON.parse(document.getElementById("data").textContent);
const controls = new Map(given.controls.map((one) => [one.name, one]));
const form = document.getElementById("controls");
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const SUFFIX = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
const SCALE = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12, P: 1e15 };

// ---- numbers as people type them ----

function parsed(text) {
  const match = /^\s*([\d.]+(?:[eE][+-]?\d+)?)\s*([kKMGBTP]?)\s*$/.exec(text);
  return match ? Number(match[1]) * (SCALE[match[2]] ?? 1) : NaN;
}

function ends(text) {
  const parts = text.split("..");
  if (parts.length > 2) return null;
  const values = parts.map(parsed);
  const scale = SCALE[parts.at(-1).trim().at(-1)] ?? 1;
  // a suffix written once holds for both ends, as long as they stay in order
  if (parts.length === 2 && !/[a-zA-Z]\s*$/.test(parts[0]) && values[0] * scale < values[1]) values[0] *= scale;
  return values.every((value) => value >= 0) ? values : null;
}

function written(value, whole) {
  if (whole && (value < 1e4 || Number.isInteger(Math.log2(value)))) return String(Math.round(value));
  if (value >= 1e17) return value.toExponential(2).replace("+", "").replace(/\.?0+e/, "e");
  if (value < 1e4 * 0.9995) return String(whole ? Math.round(value) : Number(value.toPrecision(3)));
  const [size, name] = SUFFIX.find(([least]) => value >= least * 0.9995);
  return Number((value / size).toPrecision(3)) + name;
}

function positionOf(one, text) {
  const values = ends(text);
  if (!values) return null;
  if (one.has_zero && Math.max(...values) === 0) return 0;
  const value = values.length === 1 ? values[0] : one.log ? Math.sqrt(values[0] * values[1]) : (values[0] + values[1]) / 2;
  const share = one.log ? Math.log(Math.max(value, one.low) / one.low) / Math.log(one.high / one.low)
    : (value - one.low) / (one.high - one.low);
  return Math.round(1000 * Math.min(1, Math.max(0, share)));
}

function textAt(one, position, before) {
  const share = position / 1000;
  if (one.has_zero && position === 0) return "0";
  const free = one.log ? one.low * (one.high / one.low) ** share : one.low + share * (one.high - one.low);
  const value = one.is_power ? 2 ** Math.round(Math.log2(free)) : free;
  const old = ends(before);
  if (!old || old.length === 1 || !(old[0] > 0)) return written(value, one.whole);
  const middle = one.log ? Math.sqrt(old[0] * old[1]) : (old[0] + old[1]) / 2;
  return old.map((end) => written((end * value) / middle, one.whole)).join("..");
}

// ---- the scenario: boxes and the address ----

const box = (name) => form.elements.namedItem(name);
const holder = (name) => form.querySelector(`.control[data-name="${CSS.escape(name)}"]`);

// defaults, as the server knows them: some pages start from one of several plans, and a price holds for its own chip alone
function defaults(read) {
  const [first] = given.controls;
  const base = given.bases[read(first.name) ?? first.default] ?? {};
  const own = Object.fromEntries(given.controls.map((one) => [one.name, base[one.name] ?? one.default]));
  const isMoved = (name) => name && (read(name) ?? own[name]) !== own[name];
  const others = given.controls.filter((one) => one.follows.split("|").some(isMoved));
  return { ...own, ...Object.fromEntries(others.map((one) => [one.name, one.otherwise])) };
}

function typed(name) {
  const field = box(name);
  return field.type === "checkbox" ? (field.checked ? "on" : "") : field.value.trim();
}

function readBoxes() {
  const query = new URLSearchParams(), usual = defaults(typed);
  for (const name of controls.keys()) if (typed(name) !== usual[name]) query.set(name, typed(name));
  return query;
}

function fillBoxes(query) {
  const usual = defaults((name) => query.get(name));
  for (const name of controls.keys()) {
    put(name, query.has(name) ? query.get(name) : usual[name]);
  }
  remember();
}

function put(name, text) {
  const field = box(name);
  if (field.type === "checkbox") field.checked = text === "on";
  else field.value = text;
  // a word that is no choice stays visible, and the server says what is allowed
  if (field.tagName === "SELECT" && field.value !== text) { field.add(new Option(text, text)); field.value = text; }
  placeSlider(name);
}

function placeSlider(name, text = box(name).value) {
  const slider = holder(name)?.querySelector(".slider");
  if (!slider) return;
  const shown = text.trim() || box(name).placeholder;
  const position = shown ? positionOf(controls.get(name), shown) : 0;
  if (position !== null) slider.value = position;
  slider.setAttribute("aria-valuetext", `${shown || "chosen by the engine"} ${controls.get(name).unit}`.trim());
}

// another plan: boxes that stand at its defaults take the new ones; another chip: what was said of the old one falls away
let before = { usual: {}, typed: {} };
const remember = () => { before = { usual: defaults(typed), typed: Object.fromEntries(given.controls.map((one) => [one.name, typed(one.name)])) }; };

function followed() {
  const isAnother = (name) => name && typed(name) !== before.typed[name];
  const left = given.controls.filter((one) => !isAnother(one.name)
    && (typed(one.name) === before.usual[one.name] || one.follows.split("|").some(isAnother)));
  for (let pass = 0; pass < 2; pass += 1) { // what follows a box that has just changed is known in the second
    const usual = defaults(typed);
    for (const { name } of left) if (typed(name) !== usual[name]) { box(name).value = usual[name]; placeSlider(name); }
  }
  remember();
}

let pinned = null, notice = "";

function address() {
  const query = readBoxes();
  if (pinned !== null) query.set("vs", pinned);
  const text = query.toString();
  return `${location.pathname}${text ? `?${text}` : ""}`;
}

let depth = 0, furthest = 0, isSettling = false;
const sheet = controlsSheet({ form, opener: byId("open-controls"), closer: byId("close-controls"), headline: byId("headline"),
  guard: () => { furthest = depth; history.pushState({ depth, sheet: true }, "", location.href); buttons(); } });
const isAhead = () => address() !== location.pathname + location.search;

// one more step to undo; only a scenario with an answer becomes one
function keep() {
  isSettling = false;
  if (!isAhead()) return;
  depth += 1;
  furthest = depth;
  history.pushState({ depth }, "", address());
  buttons();
}

function buttons() {
  byId("undo").disabled = depth === 0 && !isAhead();
  byId("redo").disabled = depth === furthest;
  byId("compare").setAttribute("aria-pressed", String(pinned !== null));
  for (const [name, one] of controls) if (one.only) holder(name).hidden = !matters(one.only);
  for (const group of form.querySelectorAll("fieldset")) group.hidden = !group.querySelector(".control:not([hidden])") || isEmptySlot(group);
  if (byId("add")) byId("add").disabled = !slots.some(isEmptySlot);
  const preset = byId("preset");
  if (preset) preset.value = Object.keys(given.presets).find((name) => same(given.presets[name])) ?? "";
}

// groups of which a reader has as many as are wanted: an empty one is not shown
const slots = [...form.querySelectorAll("[data-slot]")];
const namesIn = (slot) => [...slot.querySelectorAll(".control")].map((one) => one.dataset.name);
const isEmptySlot = (slot) => slots.includes(slot) && namesIn(slot).every((name) => !typed(name));
const firstIn = (slot) => box(namesIn(slot)[0]);

function addSlot() {
  const first = firstIn(slots.find(isEmptySlot)), used = slots.map((one) => firstIn(one).value);
  put(first.name, given.examples.find((one) => !used.includes(one)) ?? given.examples[0]);
  remember();
  settle();
  first.focus();
}

function removeSlot(slot) { // those behind it move up
  const rows = slots.slice(slots.indexOf(slot)).map(namesIn), texts = rows.map((names) => names.map(typed));
  rows.forEach((names, i) => names.forEach((name, k) => put(name, texts[i + 1]?.[k] ?? "")));
  remember();
  settle();
  byId("add").focus();
}

function matters(only) {
  const [name, words] = only.split("=");
  return words.split("|").includes(box(name).value);
}

// whether the boxes hold a preset's values, and defaults elsewhere
const same = (preset) => {
  const usual = defaults((name) => preset[name]);
  return [...controls.keys()].every((name) => typed(name) === (preset[name] ?? usual[name]));
};

function fromAddress() {
  const query = new URLSearchParams(location.search);
  pinned = query.get("vs");
  query.delete("vs");
  query.delete("token");
  const unread = [...new Set(query.keys())].filter((name) => !controls.has(name)).join(", ");
  notice = unread && `Left out of the address: ${unread} (no control of this page).`;
  fillBoxes(query);
  buttons();
}

// ---- asking: one question at a time, and always the latest; the next is on its way while an answer is drawn ----

// a question that runs longer is given up once a reader has settled on another
const SLOW_MS = 400;
let asking = null, again = false, answered = null, refused = null, shownCount = 0, latest = null;

const fetched = (path, signal, more = {}) => fetchedFrom(path, signal, more, tellFar);
let far = 0;

// before a first answer the page says that one is on its way, and how far it is; later the last answer stays
function computing(text) {
  byId("computing").textContent = text;
  byId("computing").hidden = !text;
  for (const one of ["headline", "context", "evidence"]) byId(one).classList.toggle("waits", Boolean(text));
}

function tellFar({ done, total, what } = { done: 0, total: 0, what: "" }) {
  far = Math.max(far, done);
  const bar = document.querySelector(".bar");
  bar.classList.toggle("known", total > 1);
  bar.firstElementChild.style.width = total > 1 ? `${(100 * done) / total}%` : "";
  byId("busy-text").textContent = total > 1 ? `${done} of ${total} ${what}` : what || "working";
  if (!byId("computing").hidden) computing(total > 1 ? `Computing: ${done} of ${total} ${what} done.` : "Computing.");
}

async function settle() {
  clearTimeout(pause);
  isTyping = false;
  isSettling = true;
  buttons();
  await ask(true);
}

async function ask(isSettled = false, before = 0) {
  const query = readBoxes().toString(), question = JSON.stringify([query, pinned]);
  if (asking) {
    again = asking.question !== question;
    if (again && isSettled && performance.now() - asking.since > SLOW_MS) asking.stop.abort();
    return;
  }
  if (question === answered) { if (isSettling) keep(); return; }
  if (question === refused) { isSettling = false; buttons(); return; } // what was wrong with it is still on the page
  const own = { question, since: performance.now(), stop: new AbortController() };
  asking = own;
  root.dataset.asking = "on";
  far = 0;
  const slow = setTimeout(() => { byId("busy").hidden = false; if (latest === null) computing("Computing."); }, SLOW_MS);
  let tell;
  try {
    const wanted = [fetched(`/view/${given.page}?${query}`, own.stop.signal)];
    if (pinned !== null) wanted.push(fetched(`/view/${given.page}?${pinned}`, own.stop.signal));
    const [view, other] = await Promise.all(wanted);
    answered = question;
    refused = null;
    tell = () => {
      latest = { query, view };
      if (isSettling && question === JSON.stringify([readBoxes().toString(), pinned])) keep();
      return show(view, other ?? null);
    };
  } catch (error) {
    if (!own.stop.signal.aborted) tell = () => { if (!isTyping) { complain(error); refused = error.control ? question : null; } };
    else if (!again) tell = () => say("stopped; the last answer stays");
    // offers that were answered within a question's time are kept: the next question goes on behind them
    if (slots.length && far > before && !own.stop.signal.aborted && error.message.startsWith("stopped:")) { tell = null; again = true; }
  }
  const reached = far;
  clearTimeout(slow);
  if (byId("busy").contains(document.activeElement)) byId("answer").focus({ preventScroll: true }); // not at the page's top
  byId("busy").hidden = true;
  tellFar();
  asking = null;
  if (again) { again = false; ask(false, tell === null ? reached : 0); }
  await tell?.();
  if (!asking) delete root.dataset.asking;
}

// a launch that is pasted becomes what its flags say in the boxes; what it does not decide stays
async function readPasted() {
  const problem = byId("e-pasted");
  problem.hidden = true;
  byId("read-said").replaceChildren();
  try {
    const path = `/read/${given.page}?${new URLSearchParams({ system: typed("system") })}`;
    const { values, said } = await fetched(path, undefined, { method: "POST", body: byId("pasted").value });
    for (const [name, text] of Object.entries(values)) put(name, text);
    byId("read-said").replaceChildren(...said.map(([label, text]) => element("li", {}, element("b", {}, `${label}: `), text)));
    remember();
    await settle();
  } catch (error) {
    problem.textContent = error.message ?? String(error);
    problem.hidden = false;
  }
}

function complain(error) {
  for (const one of document.querySelectorAll(".error")) { one.hidden = true; one.textContent = ""; }
  for (const one of form.querySelectorAll("[aria-invalid]")) one.removeAttribute("aria-invalid");
  byId("answer").classList.toggle("stale", error !== null);
  if (error === null) return;
  computing("");
  answered = null;
  isSettling = false;
  if (latest === null && startOver(error)) return;
  buttons();
  const field = error.control ? box(error.control) : null;
  const place = field ? byId(`e-${error.control}`) : byId("e-");
  const label = field ? controls.get(error.control).label : "";
  const message = plain(error, label);
  place.textContent = message;
  place.hidden = false;
  if (field) {
    field.setAttribute("aria-invalid", "true");
    byId("e-").replaceChildren(`${label} ${message}${latest ? ". The last good answer stays. " : ". "}`,
      element("a", { href: `#c-${error.control}`, onclick: (event) => { event.preventDefault(); sheet.open(field); field.focus(); } }, `Go to ${label}`));
    byId("e-").hidden = false;
  }
  shownCount += 1;
  root.dataset.shown = String(shownCount);
}

const plain = (error, label) => error.message.replace(`--${error.control} `, "").replace(label && `${label} `, "");

// a link that cannot be answered: one line says why, and the default stands in its place
function startOver(error) {
  const query = readBoxes();
  if (!query.size && pinned === null) return false;
  const label = controls.get(error.control)?.label ?? "";
  if (query.has(error.control)) query.delete(error.control); else for (const name of [...query.keys()]) query.delete(name);
  notice = `The link cannot be answered as it stands: ${label} ${plain(error, label)}. The default is shown instead.`.replace("  ", " ");
  pinned = null;
  fillBoxes(query);
  history.replaceState({ depth }, "", address());
  buttons();
  setTimeout(ask);
  return true;
}

const say = (text) => { byId("said").textContent = text; };

// ---- showing ----

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

async function show(view, other) {
  complain(null);
  computing("");
  if (notice) { byId("e-").textContent = notice; byId("e-").hidden = false; notice = ""; }
  byId("headline").replaceChildren(...parts(view.headline));
  byId("context").textContent = unbroken(view.context);
  tellEvidence(view.evidence);
  byId("command").textContent = view.command;
  byId("how-working").hidden = !view.tiles.some((one) => one.key);
  byId("get-plan").hidden = view.plan === null;
  if (view.plan !== null) byId("get-plan").textContent = view.command.split(" ").at(-1);
  const usual = defaults(typed);
  for (const [name, one] of controls) {
    if (one.kind === "choice" || one.kind === "switch") continue;
    box(name).placeholder = view.resolved[name] ?? (usual[name] ? "" : one.blank);
    if (box(name).placeholder.length > 12) holder(name).classList.add("wide");
    if (!box(name).value.trim()) placeSlider(name);
  }
  if (other) other.plots.forEach((one, index) => alike(one.figure.layout, view.plots[index]?.name === one.name ? view.plots[index].figure.layout : {}));
  draw(byId("now"), view, other, other ? "This scenario" : "");
  byId("pinned").hidden = !other;
  byId("scenarios").classList.toggle("two", Boolean(other));
  if (other) draw(byId("pinned"), other, null, "Compared with");
  for (const name of ["headline", "context", "evidence", "now", "pinned"]) window.explainTerms(byId(name));
  if (explained !== null) work(explained);
  else if (location.hash.startsWith("#working=")) work(location.hash.slice(9));
  await paintInView();
  shownCount += 1;
  root.dataset.shown = String(shownCount);
}

// whether the answer is right: one line, and below it the nearest measurements; what a reader opened stays open
function tellEvidence(evidence) {
  const place = byId("evidence");
  place.hidden = evidence === null;
  if (evidence === null) return;
  byId("evidence-text").textContent = unbroken(evidence.text);
  place.querySelector(".tables").replaceChildren(...evidence.tables.map((one) => table(one, "")));
  const links = evidence.address ? [element("a", { href: evidence.address }, "All measurements like this one")] : [];
  const command = evidence.command ? [links.length ? ", or " : "All of them: ", element("code", {}, evidence.command)] : [];
  byId("evidence-details").textContent = unbroken(evidence.details);
  byId("evidence-links").replaceChildren(...links, ...command);
  place.classList.toggle("bare", !evidence.tables.length && !evidence.command);
}

// two scenarios side by side are measured by the same rule; an axis that only orders rows stays
function alike(one, other) {
  for (const name of ["xaxis", "yaxis"]) {
    const pair = [one[name], other[name]];
    if (!pair.every((axis) => axis && axis.showticklabels !== false && axis.range?.every(Number.isFinite) && axis.range[0] < axis.range[1])) continue;
    if (pair[0].type !== pair[1].type) continue;
    const [wide, slim] = pair.toSorted((a, b) => b.range[1] - b.range[0] - a.range[1] + a.range[0]).map((axis) => ({ ...axis }));
    const isOutside = (tick) => { const at = wide.type === "log" ? Math.log10(tick) : tick; return at < wide.range[0] || at > wide.range[1]; };
    for (const axis of pair) {
      axis.range = [Math.min(wide.range[0], slim.range[0]), Math.max(wide.range[1], slim.range[1])];
      if (!wide.tickvals || !slim.tickvals) continue;
      const more = slim.tickvals.map((tick, i) => [tick, slim.ticktext?.[i]]).filter(([tick]) => isOutside(tick));
      axis.tickvals = [...wide.tickvals, ...more.map(([tick]) => tick)];
      if (wide.ticktext) axis.ticktext = [...wide.ticktext, ...more.map(([, text]) => text)];
    }
  }
}

// who stands in an answer as the next one comes stays at the same table or button, though it is made anew
function refocus(place, held) {
  const name = (one) => one.tagName + (one.getAttribute("aria-label") ?? one.closest("[aria-label]")?.getAttribute("aria-label") ?? one.textContent);
  const again = [...place.querySelectorAll("a, button, input, select, [tabindex]")].find((one) => name(one) === name(held));
  (again ?? byId("answer")).focus({ preventScroll: true });
}

function draw(place, view, other, heading) {
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const shape = JSON.stringify([heading, view.tiles.map((t) => t.label), view.plots.map((p) => p.name)]);
  if (place.dataset.shape !== shape) {
    place.dataset.shape = shape;
    const tiles = element("dl", { class: view.tiles.length % 3 ? "tiles four" : "tiles" });
    for (const one of view.tiles) {
      tiles.append(element("div", {}, element("dt", {}, one.label), element("dd", {},
        element("span", { class: "value" }), element("span", { class: "band" }), element("span", { class: "versus" }),
        one.key ? why(one.key, one.label) : null)));
    }
    const plots = element("div", { class: "plots" });
    for (const one of view.plots) {
      const canvas = element("div", { class: "canvas", role: "img" });
      plots.append(element("figure", { "data-plot": one.name, class: one.is_wide ? "wide" : null }, element("h2", {}, one.title), canvas,
        element("figcaption", {}, one.caption), element("p", { class: "row buttons" },
          one.key ? why(one.key, one.title) : null,
          ...["png", "svg"].map((format) => element("button", { type: "button", class: "quiet",
            "aria-label": `${one.title} as ${format.toUpperCase()}`,
            onclick: () => take(canvas, format, one.title) }, format.toUpperCase())))));
      seen.observe(canvas);
    }
    for (const canvas of place.querySelectorAll(".canvas")) seen.unobserve(canvas);
    place.replaceChildren(...(heading ? [element("h2", { class: "which" }, heading)] : []),
      ...(view.tiles.length ? [tiles] : []), element("dl", { class: "facts" }), plots,
      element("div", { class: "tables" }), element("ul", { class: "notes" }));
  }
  view.tiles.forEach((one, index) => {
    const cell = place.querySelectorAll(".tiles > div")[index];
    const [, number, unit] = /^([^\u00a0/]+)(.*)$/.exec(one.text) ?? [null, one.text, ""];
    cell.querySelector(".value").replaceChildren(number, unit && element("small", {}, unbroken(unit)));
    cell.querySelector(".band").textContent = unbroken(one.band);
    cell.querySelector(".versus").textContent = other ? versus(one, other.tiles[index]) : "";
  });
  view.plots.forEach((one, index) => {
    const figure = place.querySelectorAll("figure")[index];
    figure.querySelector("figcaption").textContent = one.caption;
    const canvas = figure.querySelector(".canvas");
    canvas.setAttribute("aria-label", `${one.title}. ${one.caption}`);
    want(canvas, one.figure);
  });
  place.querySelector(".tables").replaceChildren(...view.tables.map((one) => table(one, place.id === "pinned" ? ", compared with" : "")));
  place.querySelector(".facts").replaceChildren(...view.facts.flatMap(([label, text]) => [element("dt", {}, label), element("dd", {}, text)]));
  for (const [title, text] of view.blocks) place.querySelector(".tables").append(element("section", {}, element("h2", {}, title), element("pre", {}, text)));
  place.querySelector(".notes").replaceChildren(
    ...view.links.map(([text, address]) => element("li", {}, element("a", { href: address }, text))),
    ...[...view.notes, ...view.grounds].map((text) => element("li", {}, text)));
  if (held && !held.isConnected) refocus(place, held);
}

const why = (key, label) => element("button", { type: "button", class: "why", onclick: (event) => work(key, event.currentTarget),
  "aria-label": `working of ${label}` }, "working");

function versus(one, other) {
  if (!other || one.value === null || other.value === null || !(other.value > 0)) return "";
  const ratio = one.value / other.value;
  return Math.abs(ratio - 1) < 0.005 ? "the same" : `${ratio.toPrecision(3)} × the other`;
}

const under = (cell) => [cell.below, cell.details].filter(Boolean);
const said = (cell) => (typeof cell === "string" ? cell : cell.text);

function cellParts(cell) {
  // long units may break behind a stroke
  if (/^\d{4}-\d\d(-\d\d)?$/.test(cell)) return [element("span", { class: "date" }, cell)];
  const parts = said(cell).split(/(?<=\/)/).flatMap((part, i) => (i ? [element("wbr"), part] : [part]));
  if (typeof cell === "string") return parts;
  const bar = cell.share === null ? [] : [element("span", { class: "meter" }, element("i", { style: `width: ${(100 * Math.min(Math.max(cell.share, 0), 1)).toFixed(1)}%` })), " "];
  const text = cell.href ? [element("a", { href: cell.href, target: "_blank", rel: "noreferrer" }, cell.text)] : parts;
  return [...bar, ...text, ...under(cell).map((words) => element("span", { class: "below" }, words))];
}

// columns of prose share the width by how much they say
function widths(one) {
  const length = (cell) => said(cell).length + under(cell).join("").length;
  const shares = one.columns.map((name, i) => {
    const lengths = one.rows.map((row) => length(row[i]));
    return Math.sqrt(Math.max(name.length, lengths.reduce((sum, each) => sum + each) / lengths.length, Math.max(...lengths) / 4)) + 1;
  });
  const whole = shares.reduce((sum, share) => sum + share, 0);
  return element("colgroup", {}, ...shares.map((share) => element("col", { style: `width: ${((100 * share) / whole).toFixed(1)}%` })));
}

// roles are written out: tables of many columns become cards where there is no room, and stay tables to a screen reader
function table(one, whose) {
  const numeric = one.columns.map((name) => name.endsWith("#"));
  const names = one.columns.map((name) => name.replace(/ ?#$/, ""));
  const isLong = one.rows.some((row) => row.some((cell) => under(cell).length));
  const body = element("tbody", { role: "rowgroup" }, ...one.rows.map((row, place) => element("tr", { role: "row", class: one.strong.includes(place) ? "strong" : null }, ...row.map((cell, i) =>
    i === 0 ? element("th", { scope: "row", role: "rowheader" }, ...cellParts(cell))
      : element("td", { role: "cell", class: numeric[i] ? "number" : null, "data-name": names[i] }, ...cellParts(cell))))));
  const rows = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": one.title + whose },
    element("table", { role: "table", class: one.is_sortable ? "sorted" : names.length > 2 ? (isLong ? "cards long" : "cards") : null }, isLong ? widths(one) : null,
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...names.map((name, i) =>
        element("th", { scope: "col", role: "columnheader", class: numeric[i] ? "number" : null },
          one.rows.length > 3 && name ? sorting(name, i, numeric[i], body) : name)))), body));
  return element("section", {}, element("div", { class: "table-top" }, element("h2", {}, one.title), one.key ? why(one.key, one.title) : null,
    one.rows.length > 12 ? finder(one.title + whose, body) : null), rows, one.note ? element("p", { class: "quiet" }, one.note) : null);
}

// numbers fall, words rise; the order of the answer comes back at the third press
const UNITS = { ns: 1e-9, "\u00b5s": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, day: 86400, days: 86400, months: 2.63e6, years: 3.156e7,
  k: 1e3, K: 1e3, M: 1e6, B: 1e9, T: 1e12, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, PB: 1e15, kW: 1e3, MW: 1e6, GW: 1e9,
  MFLOP: 1e6, GFLOP: 1e9, TFLOP: 1e12, PFLOP: 1e15, EFLOP: 1e18 };

// what a cell's first number amounts to: $1.2K, 450 ms, 16.4 GB
function amount(text) {
  const found = /([-+\u2212]?)\$?(\d[\d,]*\.?\d*(?:e[-+]?\d+)?)(?:\s?([\p{L}\u00b5]+))?/u.exec(text);
  if (!found) return NaN;
  const number = Number(found[2].replaceAll(",", "")) * (UNITS[found[3]] ?? 1);
  return "-\u2212".includes(found[1]) && found[1] ? -number : number;
}

function ordered(rows, i, isNumeric, direction) {
  const key = (row) => row.cells[i].firstChild?.textContent ?? "";
  const value = new Map(rows.map((row) => [row, isNumeric ? amount(row.cells[i].textContent) : key(row)]));
  const isNone = (row) => isNumeric && Number.isNaN(value.get(row));
  return [...rows].sort((one, other) => (isNone(one) || isNone(other) ? isNone(one) - isNone(other)
    : direction * (isNumeric ? value.get(one) - value.get(other) : value.get(one).localeCompare(value.get(other)))));
}

function sorting(name, i, isNumeric, body) {
  const asGiven = [...body.rows];
  const turns = isNumeric ? ["descending", "ascending", null] : ["ascending", "descending", null];
  return element("button", { type: "button", class: "by", onclick: (event) => {
    const head = event.currentTarget.closest("th");
    const turn = turns[(turns.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
    for (const one of head.parentElement.cells) one.removeAttribute("aria-sort");
    if (turn) head.setAttribute("aria-sort", turn);
    body.replaceChildren(...(turn ? ordered(asGiven, i, isNumeric, turn === "ascending" ? 1 : -1) : asGiven));
  } }, name);
}

function finder(title, body) {
  const find = (event) => {
    const asked = event.target.value.toLowerCase().split(/\s+/);
    for (const row of body.rows) row.hidden = !asked.every((word) => row.textContent.toLowerCase().includes(word));
  };
  return element("label", { class: "find" }, "Find ", element("input", { type: "search", "aria-label": `find in ${title}`, oninput: find }));
}

// plots in view are drawn before an answer counts as shown, those near the view as soon as nothing else is to do, and
// the others when they come near it or the drag is over: a drag moves what one looks at
const waiting = new WeakMap();
const inSight = new WeakSet();
const canvases = () => [...document.querySelectorAll(".canvas")];
const isInView = ({ top, bottom }) => top < innerHeight && bottom > 0;
const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting, boundingClientRect } of entries) {
    if (isIntersecting) inSight.add(target); else inSight.delete(target);
    if (isIntersecting && waiting.has(target) && isInView(boundingClientRect)) paintNow(target);
  }
  paintNear();
}, { rootMargin: "200px" });
const libraryLoaded = new Promise((go) => {
  if (window.Plotly) go(); else document.addEventListener("DOMContentLoaded", go, { once: true });
});

function want(canvas, figure) {
  const asked = JSON.stringify(figure);
  if (canvas.asked === asked) return; // as it is drawn, or waits to be
  canvas.asked = asked;
  waiting.set(canvas, figure);
  canvas.style.height = `${figure.layout.height}px`;
}

async function paintInView() {
  await libraryLoaded;
  // all places are read before anything is drawn: reading one afterwards would lay out the page again
  const next = canvases().filter((one) => waiting.has(one)).filter((one) => isInView(one.getBoundingClientRect()));
  for (const canvas of next) {
    const isFirst = !canvas.figure;
    if (waiting.has(canvas)) paintNow(canvas);
    if (isFirst) await new Promise((go) => setTimeout(go)); // a first drawing takes long: the page stays awake
  }
  paintNear();
}

const whenIdle = window.requestIdleCallback ?? ((go) => setTimeout(go, 30));
let isPainting = false;

function paintNear() {
  const next = window.Plotly && canvases().find((one) => waiting.has(one) && inSight.has(one));
  root.toggleAttribute("data-behind", Boolean(next));
  if (!next) paintRest(SETTLED_MS);
  if (isPainting || !next) return;
  isPainting = true;
  whenIdle(() => {
    isPainting = false;
    if (waiting.has(next) && next.isConnected) paintNow(next);
    paintNear();
  }, { timeout: 200 });
}

// the rest once nothing has been asked for a while: a page that is looked at from afar, or copied whole, lacks nothing
const SETTLED_MS = 600;
let rest = 0;

function paintRest(after_ms) {
  clearTimeout(rest);
  rest = setTimeout(() => whenIdle(() => {
    const next = window.Plotly && canvases().find((one) => waiting.has(one));
    if (!next || asking) return;
    paintNow(next);
    paintRest(0);
  }, { timeout: SETTLED_MS }), after_ms); // a machine that is never idle draws them all the same
}

function paintNow(canvas, sized = {}, look = theme()) {
  if (!window.Plotly) return;
  const figure = waiting.get(canvas);
  canvas.figure = figure;
  waiting.delete(canvas);
  window.Plotly.react(canvas, figure.data, { ...figure.layout, ...sized, template: given.templates[look] }, given.config);
}

// paper is light, as wide as a sheet, and shows every plot
addEventListener("beforeprint", () => {
  root.style.setProperty("--sheet", JSON.stringify(document.title));
  for (const canvas of canvases()) {
    const figure = waiting.get(canvas) ?? canvas.figure;
    waiting.set(canvas, figure);
    paintNow(canvas, { width: 650, height: Math.min(figure.layout.meta?.paper ?? figure.layout.height, 900), autosize: false }, "light");
  }
});
addEventListener("afterprint", () => {
  for (const canvas of canvases()) { waiting.set(canvas, canvas.figure); if (inSight.has(canvas)) paintNow(canvas); }
});

// ---- working: a sheet at the foot of the window, which follows the sliders while it is open ----

let explained = null, asker = null, isOther = false; // which figure, from which button, of the scenario compared with

async function work(key, button = null) {
  explained = key;
  if (button) { asker = button; isOther = button.closest("#pinned") !== null; }
  isOther &&= pinned !== null;
  byId("working-title").textContent = isOther ? "Working of the scenario compared with" : "Working";
  const place = byId("working-list");
  try {
    const query = isOther ? new URLSearchParams(pinned) : readBoxes();
    query.set("working", "on");
    const { working } = await fetched(`/view/${given.page}?${query}`);
    if (explained === null) return;
    const open = new Set([...place.querySelectorAll("details[open]")].map((one) => one.dataset.name));
    const own = (one) => one.name === key || one.name.endsWith(`.${key}`);
    const order = [...working.filter(own), ...working.filter((one) => !own(one))];
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

function closeWorking() {
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
    element("td", { role: "cell", "data-name": "kind" }, term.origin === "figure" ? "worked out" : term.origin),
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

// ---- taking away ----

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// a picture says what it shows, of which scenario, and from where, on an opaque ground
async function take(canvas, format, title) {
  if (waiting.has(canvas)) paintNow(canvas);
  const width = Math.max(canvas.clientWidth, 640), height = canvas.clientHeight, look = getComputedStyle(root);
  const inner = await window.Plotly.toImage(canvas, { format: "svg", width, height });
  const color = (name) => look.getPropertyValue(name).trim();
  const below = [scenario(), `Compute Ledger ${given.version}: ${location.origin}${address()}`];
  let y = 0, body = "";
  const write = (text, size, weight, ink) => wrapped(text, (width - 32) / (size * 0.56)).forEach((line) => {
    y += size * 1.45;
    body += `<text x="16" y="${y}" font-size="${size}" font-weight="${weight}" fill="${ink}">${escaped(line)}</text>`;
  });
  y = 12;
  write(title, 18, 650, color("--ink"));
  write(canvas.closest("figure").querySelector("figcaption").textContent, 12, 400, color("--quiet"));
  const drawn = decodeURIComponent(inner.slice(inner.indexOf(",") + 1)).replace(/^<svg /, `<svg x="0" y="${(y += 12)}" `);
  y += height;
  for (const line of below) write(line, 11, 400, color("--quiet"));
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${y + 16}" viewBox="0 0 ${width} ${y + 16}" font-family="${escaped(look.getPropertyValue("--font"))}">`
    + `<rect width="100%" height="100%" fill="${color("--card")}"/>${body}${drawn}</svg>`;
  const name = `computeledger-${given.page}-${canvas.parentNode.dataset.plot}.${format}`;
  if (format === "svg") return save(name, "image/svg+xml", svg);
  const picture = new Image();
  picture.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await picture.decode();
  const sheet = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * (y + 16) });
  sheet.getContext("2d").drawImage(picture, 0, 0, sheet.width, sheet.height);
  return save(name, "image/png", await new Promise((go) => sheet.toBlob(go)));
}

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

// the scenario in one line: what the boxes say, by their labels
function scenario() {
  const words = given.controls.filter((one) => typed(one.name) && !(one.only && !matters(one.only)));
  return words.map((one) => `${one.label} ${typed(one.name)}${one.unit && one.kind === "number" ? ` ${one.unit}` : ""}`).join("; ");
}

function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    if (lines.at(-1).length + word.length + 1 > most && lines.at(-1)) lines.push(word); else lines[lines.length - 1] += `${lines.at(-1) && " "}${word}`;
  }
  return lines;
}

async function copy(text, what) {
  try { await navigator.clipboard.writeText(text); say(`${what} copied`); } catch { say(`${what}: ${text}`); }
}

// ---- look ----

function redrawn() {
  for (const canvas of canvases()) if (canvas.figure) { waiting.set(canvas, waiting.get(canvas) ?? canvas.figure); if (inSight.has(canvas)) paintNow(canvas); }
}

// ---- events ----

// a box answers as one types, once the typing rests; what is not finished yet is no mistake
const REST_MS = 350;
let pause = 0, isTyping = false;

function typing(name) {
  clearTimeout(pause);
  const one = controls.get(name);
  if (one.kind === "choice" && !one.choices.includes(typed(name))) return;
  pause = setTimeout(() => { isTyping = true; followed(); buttons(); ask(); }, REST_MS);
}

// choices whose words begin as typed come first, then those that hold it anywhere
function offer(field) {
  const asked = field.value.trim().toLowerCase(), { choices } = controls.get(field.name);
  const rank = (text) => [(text) => text.startsWith(asked), (text) => text.split("/").at(-1).startsWith(asked),
    (text) => text.split(/[^a-z0-9]+/).some((word) => word.startsWith(asked)), (text) => text.includes(asked)].findIndex((fits) => fits(text.toLowerCase()));
  const ranked = choices.map((text) => [rank(text), text]).filter(([place]) => place >= 0).sort(([a], [b]) => a - b);
  field.list.replaceChildren(...ranked.map(([, value]) => element("option", { value })));
}

form.addEventListener("input", (event) => {
  const name = event.target.closest(".control")?.dataset.name;
  if (!name) return;
  if (event.target.classList.contains("slider")) {
    const field = box(name);
    field.value = textAt(controls.get(name), Number(event.target.value), field.value.trim() || field.placeholder);
    event.target.setAttribute("aria-valuetext", `${field.value} ${controls.get(name).unit}`.trim());
    isTyping = false;
    ask();
  } else if (event.target.tagName === "SELECT" || event.target.type === "checkbox") {
    followed();
    settle();
  } else {
    placeSlider(name);
    if (event.target.list) offer(event.target);
    typing(name);
  }
});
form.addEventListener("focusin", (event) => { if (event.target.list) setTimeout(() => { if (document.activeElement === event.target) event.target.select(); }); }); // select() would take the focus back
form.addEventListener("focusout", (event) => { if (event.target.list) { event.target.list.replaceChildren(...controls.get(event.target.name).choices.map((value) => element("option", { value }))); } });
form.addEventListener("change", (event) => {
  if (event.target.id === "preset") {
    const chosen = given.presets[event.target.value];
    if (chosen) { fillBoxes(new URLSearchParams(chosen)); settle(); }
    return;
  }
  if (event.target.closest(".control")) { followed(); settle(); }
});
form.addEventListener("submit", (event) => { event.preventDefault(); settle(); });
form.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.type === "text") { event.preventDefault(); followed(); settle(); } });
window.addEventListener("popstate", (event) => { if (sheet.takes(event.state, depth)) return; depth = event.state?.depth ?? 0; fromAddress(); ask(true); });
byId("undo").addEventListener("click", () => { if (isAhead()) { fromAddress(); ask(true); } else { sheet.walk(); history.back(); } });
byId("redo").addEventListener("click", () => history.forward());
byId("reset").addEventListener("click", () => { fillBoxes(new URLSearchParams()); settle(); });
byId("compare").addEventListener("click", () => { pinned = pinned === null ? readBoxes().toString() : null; settle(); });
byId("add")?.addEventListener("click", addSlot);
for (const slot of slots) slot.querySelector(".remove").addEventListener("click", () => removeSlot(slot));
byId("read")?.addEventListener("click", readPasted);
byId("close-working").addEventListener("click", closeWorking);
document.addEventListener("keydown", (event) => { if (event.key !== "Escape") return; if (explained !== null) closeWorking(); else sheet.close(); });
byId("stop").addEventListener("click", () => { again = false; asking?.stop.abort(); });
byId("link").addEventListener("click", () => copy(location.origin + address(), "link"));
byId("copy-command").addEventListener("click", () => copy(byId("command").textContent, "command"));
byId("print").addEventListener("click", () => print());
byId("get-json").addEventListener("click", async () => {
  try { save(`${given.page}.json`, "application/json", JSON.stringify(await fetched(`/api/${given.page}?${readBoxes()}`), null, 2) + "\n"); } catch (error) { complain(error); }
});
for (const [kind, ending, type] of [["csv", "csv", "text/csv"], ["report", "html", "text/html"]]) {
  byId(`get-${kind}`).addEventListener("click", async () => {
    const answer = await fetch(`/${kind}/${given.page}?${readBoxes()}`);
    if (answer.ok) save(`${given.page}.${ending}`, type, await answer.text()); else complain(await answer.json());
  });
}
byId("get-plan").addEventListener("click", () => { if (latest?.view.plan) save(byId("get-plan").textContent, "application/toml", latest.view.plan); });

document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
dress(redrawn);
history.replaceState({ depth: 0 }, "");
fromAddress();
window.explainTerms(form);
ask();
