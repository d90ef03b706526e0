// One page of the app: controls become an address, the address becomes an answer, the answer becomes tiles and plots.
// Nothing is computed here: the server answers with texts and finished drawings.

import { advised } from "./advice.js";
import { defaultsOf, fileWords, scenarioWords, takesPart } from "./boxes.js";
import { contextLines } from "./context.js";
import { copy } from "./copying.js";
import { byId, element, root, say } from "./dom.js";
import { fetched as fetchedFrom } from "./fetching.js";
import { coded, parts, sentences, unbroken } from "./headline.js";
import { positionOf, textAt } from "./numbers.js";
import { namedBoxes } from "./names.js";
import { onward } from "./onward.js";
import { pickers } from "./picker.js";
import { alike, paintInView, redrawn, retitle, seen, want } from "./plots.js";
import { controlsSheet } from "./sheet.js";
import { fill, table } from "./tables.js";
import { sweeps } from "./sweeping.js";
import { named, picture, save } from "./taking.js";
import { differences, overlay } from "./comparing.js";
import { keptScenarios, MOST_COMPARED, read as readScenario, written as writtenScenario } from "./scenarios.js";
import { foldsOnPhone, further, MOST_TILES } from "./folds.js";
import { keepEven } from "./evening.js";
import { groupsOf } from "./groups.js";
import { searching } from "./searching.js";
import { sharesOf } from "./shares.js";
import { editionNotice, isOwnHost, sharing, wholeAddress } from "./sharing.js";
import { rests, tellState, updating } from "./state.js";
import { dress } from "./theme.js";
import { endTour, greet, isTouring, startTour } from "./tour.js";
import { inUnits, unitsButton } from "./units.js";
import { closeWorking, followWorking, isExplaining, why, workingOf } from "./working.js";

const given = JSON.parse(document.getElementById("data").textContent);
const controls = new Map(given.controls.map((one) => [one.name, one]));
const form = document.getElementById("controls");

// ---- the scenario: boxes and the address ----

const box = (name) => form.elements.namedItem(name);
const holder = (name) => document.querySelector(`.control[data-name="${CSS.escape(name)}"]`);

const defaults = (read) => defaultsOf(given, read), shares = sharesOf(holder);

function typed(name) {
  const field = box(name);
  return field.type === "checkbox" ? (field.checked ? "on" : "") : shares.joined(name, field.value.trim());
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

function put(name, said) {
  const field = box(name), { renamed } = controls.get(name), text = Object.hasOwn(renamed, said) ? renamed[said] : said;
  if (field.type === "checkbox") field.checked = text === "on";
  else field.value = shares.put(name, text);
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
    for (const { name } of left) if (typed(name) !== usual[name]) put(name, usual[name]);
  }
  remember();
}

// scenarios that the present one is compared with: one stands beside it, several are drawn over it
let others = [], notice = "";
const views = new Map(); // what was answered to them

function withOthers(boxes) {
  return () => {
    const query = boxes();
    for (const one of others) query.append("vs", writtenScenario(one));
    return query;
  };
}

function address() {
  const text = withOthers(readBoxes)().toString();
  return `${location.pathname}${text ? `?${text}` : ""}`;
}

const context = contextLines(), names = namedBoxes({ form, controls, systems: given.systems });
let kept = null; // the list of scenarios by name
let depth = 0, furthest = 0, isSettling = false;
const sheet = controlsSheet({ form, opener: byId("open-controls"), closer: byId("close-controls"), headline: byId("headline"),
  guard: () => { furthest = depth; history.pushState({ depth, sheet: true }, "", location.href); buttons(); } });
let stands = ""; // the scenario of the browser's address, as address() spells it: one that was shared spells every box
const isAhead = () => address() !== stands;

// one more step to undo; only a scenario with an answer becomes one
function keep() {
  isSettling = false;
  if (!isAhead()) return;
  share.forget();
  depth += 1;
  furthest = depth;
  stands = address();
  history.pushState({ depth }, "", stands);
  buttons();
}

const groups = groupsOf({ form, controls, typed, usual: () => defaults(typed), placeholder: (name) => latest?.view.resolved[name] ?? "" });

function buttons() {
  groups.tell();
  names.tell();
  byId("undo").disabled = depth === 0 && !isAhead();
  byId("redo").disabled = depth === furthest;
  byId("compare").setAttribute("aria-pressed", String(others.some((one) => !one.name)));
  kept?.show();
  for (const [name, one] of controls) if (one.only) holder(name).hidden = !takesPart(one, typed);
  for (const group of form.querySelectorAll("fieldset")) group.hidden = !group.querySelector(".control:not([hidden])") || isEmptySlot(group);
  if (byId("add")) { const isFull = !slots.some(isEmptySlot); byId("add").disabled = isFull; byId("full").hidden = !isFull; }
  const preset = byId("preset");
  sought?.tell();
  if (preset) preset.value = Object.keys(given.presets).find((name) => same(given.presets[name])) ?? "";
  if (preset) preset.title = preset.value;
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

// whether the boxes hold a preset's values, and defaults elsewhere
const same = (preset) => {
  const usual = defaults((name) => preset[name]);
  return [...controls.keys()].every((name) => typed(name) === (preset[name] ?? usual[name]));
};

function fromAddress() {
  const query = new URLSearchParams(location.search);
  others = query.getAll("vs").map(readScenario);
  const tooMany = others.splice(MOST_COMPARED).length;
  query.delete("vs");
  query.delete("token");
  const ofEdition = editionNotice(query, given);
  const unread = [...new Set(query.keys())].filter((name) => !controls.has(name)).join(", ");
  notice = [unread && `Left out of the address: ${unread} (no control of this page).`, ofEdition].filter(Boolean).join(" ");
  if (tooMany) notice = `${notice} ${MOST_COMPARED} scenarios are compared at once; the address has ${tooMany} more, left out.`.trim();
  fillBoxes(query);
  stands = address();
  buttons();
}

// ---- asking: one question at a time, and always the latest; the next is on its way while an answer is drawn ----

// a question that runs longer is given up once a reader has settled on another
const SLOW_MS = 400;
let asking = null, again = false, answered = null, refused = null, shownCount = 0, latest = null;

const fetched = (path, signal, more = {}) => fetchedFrom(path, signal, more, tellFar);
let far = 0;

function tellFar({ done, total, what } = { done: 0, total: 0, what: "" }) {
  far = Math.max(far, done);
  const bar = document.querySelector(".bar");
  bar.classList.toggle("known", total > 1);
  bar.firstElementChild.style.width = total > 1 ? `${(100 * done) / total}%` : "";
  byId("busy-text").textContent = total > 1 ? `${done} of ${total} ${what}` : what || "working";
  if (total > 1) tellState(`${latest === null ? "Computing" : "Updating"}: ${done} of ${total} ${what}`);
}

async function settle() {
  clearTimeout(pause);
  isTyping = false;
  isSettling = true;
  buttons();
  await ask(true);
}

async function ask(isSettled = false, before = 0) {
  const query = readBoxes().toString(), question = JSON.stringify([query, others]);
  if (asking) {
    again = asking.question !== question;
    if (again && isSettled && performance.now() - asking.since > SLOW_MS) asking.stop.abort();
    return;
  }
  if (question === answered) { rests(true); if (isSettling) keep(); return; }
  if (question === refused) { isSettling = false; buttons(); return; } // what was wrong with it is still on the page
  const own = { question, since: performance.now(), stop: new AbortController() };
  asking = own;
  root.dataset.asking = "on";
  delete root.dataset.settled;
  far = 0;
  updating(latest === null);
  const slow = setTimeout(() => { byId("busy").hidden = false; }, SLOW_MS);
  let tell;
  try {
    const compared = others;
    const [view, ...found] = await Promise.all([fetched(`/view/${given.page}?${query}`, own.stop.signal), ...compared.map((one) => otherView(one, own.stop.signal))]);
    answered = question;
    refused = null;
    tell = () => {
      latest = { query, view };
      if (isSettling && question === JSON.stringify([readBoxes().toString(), others])) keep();
      return show(view, compared.map((one, i) => ({ ...one, view: found[i] })).filter((one) => one.view));
    };
  } catch (error) {
    if (!own.stop.signal.aborted) tell = () => { if (isTyping) rests(false, "Not updated yet"); else { complain(error); refused = error.control ? question : null; } };
    else if (!again) tell = () => { rests(false, latest ? "Stopped: the last answer" : "Stopped"); say("stopped; the last answer stays"); };
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

// the answer to a scenario compared with, asked once; one that cannot be answered is left out, with a line that says so
async function otherView({ name, query }, signal) {
  if (views.has(query)) return views.get(query);
  try {
    const view = await fetched(`/view/${given.page}?${query}`, signal);
    if (views.size > 3 * MOST_COMPARED) views.delete(views.keys().next().value);
    views.set(query, view);
    return view;
  } catch (error) {
    if (signal.aborted) throw error;
    others = others.filter((one) => one.query !== query);
    notice = `Left out of the comparison: ${name || "the other scenario"}: ${error.message ?? error}`;
    return null;
  }
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
  rests(error === null, error && latest ? "Not updated: the last answer" : "");
  if (error === null) return;
  answered = null;
  isSettling = false;
  if (latest === null && !error.is_worth_another_try && startOver(error)) return;
  buttons();
  const field = error.control ? box(error.control) : null;
  const place = field ? byId(`e-${error.control}`) : byId("e-");
  const label = field ? controls.get(error.control).label : "";
  const message = plain(error, label);
  place.replaceChildren(message, ...(error.is_worth_another_try ? otherWays(error.command) : []));
  place.hidden = false;
  if (field) {
    field.setAttribute("aria-invalid", "true");
    groups.reveal(field);
    byId("e-").replaceChildren(...(error.advice ? [...advised(error), " "] : [`${label} ${message}. `]), latest ? "The last good answer stays. " : "",
      element("a", { href: `#c-${error.control}`, onclick: (event) => { event.preventDefault(); sheet.open(field); field.focus(); } }, `Go to ${label}`));
    byId("e-").hidden = false;
  }
  shownCount += 1;
  root.dataset.shown = String(shownCount);
}

// what a reader may do where there was no answer: ask again, or ask the command
function otherWays(command) {
  const anew = element("button", { type: "button", class: "quiet", id: "try-again", onclick: () => { byId("answer").focus({ preventScroll: true }); ask(true); } }, "Try again");
  if (!command) return [element("span", { class: "row" }, anew)];
  const taken = element("button", { type: "button", class: "quiet", onclick: () => copy(command, "command", taken) }, "Copy the command");
  return [element("code", {}, command), element("span", { class: "row" }, anew, taken)];
}

// options by the names of their boxes
const plain = (error, label) => error.message.replace(`--${error.control} `, "").replace(label && `${label} `, "")
  .replace(/--([a-z0-9-]+[a-z0-9])/g, (option, name) => (controls.has(name) ? `\u201c${controls.get(name).label}\u201d` : option));

// a link that cannot be answered: one line says why, and the default stands in its place; what a reader entered stays
function startOver(error) {
  const query = readBoxes(), label = controls.get(error.control)?.label ?? "";
  if (isAhead() || (!query.size && !others.length)) return false;
  if (query.has(error.control)) query.delete(error.control); else for (const name of [...query.keys()]) query.delete(name);
  const told = error.advice ? advised(error) : [`The link cannot be answered as it stands: ${label} ${plain(error, label)}.`.replace("  ", " ").replace("?.", "?")];
  notice = [...told, error.advice ? ` Shown below is the default, ${(defaults((name) => query.get(name))[error.control].split("/").at(-1))}.` : " Shown below is the default."];
  others = [];
  fillBoxes(query);
  history.replaceState({ depth }, "", stands = address());
  buttons();
  setTimeout(ask);
  return true;
}

// ---- showing ----

async function show(view, compared) {
  const other = compared.length === 1 ? structuredClone(compared[0].view) : null; // several are drawn over the present one
  complain(null);
  if (notice.length) { byId("e-").replaceChildren(...[notice].flat()); byId("e-").hidden = false; notice = ""; }
  byId("headline").replaceChildren(...parts(view.headline));
  byId("context").replaceChildren(...(view.context_href ? [element("a", { href: view.context_href }, view.context)] : coded(view.context)));
  tellEvidence(view.evidence);
  byId("command").textContent = view.command;
  byId("copy-command").disabled = false;
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
  groups.tell();
  if (compared.length > 1) overlay(view, compared.map((one) => ({ ...one, name: one.name || "compared with" })));
  if (other) other.plots.forEach((one, index) => alike(one.figure.layout, view.plots[index]?.name === one.name ? view.plots[index].figure.layout : {}));
  draw(byId("now"), view, other, other ? "This scenario" : "");
  byId("pinned").hidden = !other;
  byId("scenarios").classList.toggle("two", Boolean(other));
  if (other) draw(byId("pinned"), other, null, compared[0].name || "Compared with");
  byId("differs").replaceChildren(...(compared.length ? [table(differencesFrom(view, compared), "", why)] : []));
  for (const name of ["headline", "context", "evidence", "now", "pinned"]) window.explainTerms(byId(name));
  context.tell();
  followWorking();
  sweep.follow(view);
  onward(typed);
  await paintInView();
  greet();
  shownCount += 1;
  root.dataset.shown = String(shownCount);
}

function differencesFrom(view, compared) {
  const inAll = compared.map((one) => {
    const query = new URLSearchParams(one.query), usual = defaults((name) => query.get(name));
    return { name: one.name || "Compared with", read: (name) => query.get(name) ?? usual[name], view: one.view };
  });
  return differences(given.controls, [{ name: "This scenario", read: typed, view }, ...inAll]);
}

// whether the answer is right: one line, and below it the nearest measurements; what a reader opened stays open
function tellEvidence(evidence) {
  const place = byId("evidence");
  place.hidden = evidence === null;
  if (evidence === null) return;
  const [first, rest] = sentences(evidence.text);
  byId("evidence-text").replaceChildren(...coded(first), ...(rest ? [element("span", { class: "rest" }, " ", ...coded(rest))] : []));
  fill(place.querySelector(".tables"), evidence.tables, "", why);
  const links = evidence.address ? [element("a", { href: evidence.address }, "All measurements like this one")] : [];
  for (const [text, address] of evidence.links) links.push(links.length ? "; " : "", element("a", { href: address }, text));
  const command = evidence.command ? [links.length ? ", or " : "All of them: ", element("code", {}, evidence.command)] : [];
  byId("evidence-details").textContent = unbroken(evidence.details);
  byId("evidence-links").replaceChildren(...links, ...command);
  place.classList.toggle("bare", !evidence.tables.length && !evidence.command);
}

// who stands in an answer as the next one comes stays at the same table or button, though it is made anew
function refocus(place, held) {
  const name = (one) => one.tagName + (one.getAttribute("aria-label") ?? one.closest("[aria-label]")?.getAttribute("aria-label") ?? one.textContent);
  const again = [...place.querySelectorAll("a, button, input, select, [tabindex]")].find((one) => name(one) === name(held));
  (again ?? byId("answer")).focus({ preventScroll: true });
}

const inOrder = (plots, rest, tables) => ("list" in document.body.dataset ? [rest, tables, plots] : [plots, rest, tables]);

function draw(place, view, other, heading) {
  const held = place.contains(document.activeElement) ? document.activeElement : null;
  const shape = JSON.stringify([heading, view.facts.length, view.tiles.map((t) => t.label), view.plots.map((p) => p.name)]);
  if (place.dataset.shape !== shape) {
    place.dataset.shape = shape;
    const isOpen = place.querySelector(".further")?.open ?? false;
    const tiles = view.tiles.map((one) => element("div", {}, element("dt", {}, one.label), element("dd", {},
      element("span", { class: "value" }), element("span", { class: "band" }), element("span", { class: "versus" }),
      one.key ? why(one.key, one.label) : null, element("span", { class: "also" }))));
    const first = tiles.splice(0, MOST_TILES), rest = further(tiles, view.facts.length);
    rest.open = isOpen;
    const plots = element("div", { class: "plots" });
    for (const one of view.plots) {
      const canvas = element("div", { class: "canvas", role: "img" });
      plots.append(element("figure", { "data-plot": one.name, class: one.is_wide ? "wide" : null }, ...foldsOnPhone(one.is_detail, element("h2", {}, one.title), canvas,
        element("figcaption", {}, unbroken(one.caption)), element("p", { class: "row buttons" },
          one.key ? why(one.key, one.title) : null,
          ...["png", "svg"].map((format) => element("button", { type: "button", class: "quiet",
            "aria-label": `${one.title} as ${format.toUpperCase()}`,
            onclick: () => picture(canvas, format, { title: one.title, name: fileName(format, one.name), below: below() }) }, format.toUpperCase())),
          place.id === "now" ? embed(one, withOthers(readBoxes)) : null))));
      seen.observe(canvas);
    }
    for (const canvas of place.querySelectorAll(".canvas")) seen.unobserve(canvas);
    place.replaceChildren(...(heading ? [element("h2", { class: "which" }, heading)] : []),
      ...(first.length ? [element("dl", { class: first.length === 3 ? "tiles" : "tiles four" }, ...first)] : []),
      ...inOrder(plots, rest, element("div", { class: "tables" })), element("div", { class: "ending" }));
  }
  view.tiles.forEach((one, index) => {
    const cell = place.querySelectorAll(".tiles > div")[index];
    const [, number, unit] = /^([^\u00a0/]+)(.*)$/.exec(one.text) ?? [null, one.text, ""];
    cell.querySelector(".value").replaceChildren(number, unit && element("small", {}, unbroken(unit)));
    cell.querySelector(".band").textContent = unbroken(one.band);
    cell.querySelector(".also").replaceChildren(...(one.also ? [element("a", { class: "why", href: one.also[1] }, one.also[0])] : []));
    cell.querySelector(".versus").textContent = other ? versus(one, other.tiles[index]) : "";
  });
  view.plots.forEach((one, index) => {
    const figure = place.querySelectorAll("figure")[index];
    retitle(figure, one); figure.querySelector("figcaption").replaceChildren(unbroken(one.caption), ...(one.also ? [" ", element("a", { href: one.also[1] }, one.also[0])] : []));
    const canvas = figure.querySelector(".canvas");
    canvas.setAttribute("aria-label", `${one.title}. ${one.caption}`);
    want(canvas, one.figure);
  });
  keepEven(place.querySelector(".plots"));
  const blocks = view.blocks.map(([title, text]) => element("section", {}, element("details", { class: "detail" }, element("summary", {}, element("h2", {}, title)), element("pre", {}, text))));
  fill(place.querySelector(".tables"), view.tables, place.id === "pinned" ? ", compared with" : "", why, blocks);
  place.querySelector(".facts").replaceChildren(...view.facts.flatMap(([label, text]) => [element("dt", {}, label), element("dd", {}, text)]));
  ending(place.querySelector(".ending"), view);
  if (held && !held.isConnected) refocus(place, held);
}

// what a reader is told stands open; what the answer stands on opens
function ending(place, view) {
  const said = (text) => element("li", {}, ...coded(text)), isOpen = place.querySelector("details")?.open ?? false;
  const grounds = [...view.links.map(([text, address]) => element("li", {}, element("a", { href: address }, text))), ...view.grounds.map(said)];
  place.replaceChildren(...(view.notes.length ? [element("ul", { class: "notes" }, ...view.notes.map(said))] : []),
    ...(grounds.length ? [element("details", { class: "detail", open: isOpen }, element("summary", {}, element("h2", {}, `Assumptions and sources (${grounds.length})`)), element("ul", { class: "notes" }, ...grounds))] : []));
}

function versus(one, other) {
  if (!other || one.value === null || other.value === null || !(other.value > 0)) return "";
  const ratio = one.value / other.value;
  return Math.abs(ratio - 1) < 0.005 ? "the same" : `${ratio.toPrecision(3)} × the other`;
}

// a file is named after the command, the model, the system and what it shows
const fileName = (ending, part = "") => named([latest?.view.command.split(" ")[1] ?? given.page, ...fileWords(given, typed), part], ending);

// what stands below a picture
const below = () => [byId("headline").textContent, scenarioWords(given, typed), ...(latest?.view.sourced ?? []),
  ...(latest?.view.evidence ? [`Is it right? ${latest.view.evidence.text.replaceAll("`", "")}`] : []),
  `Compute Ledger ${given.version}, ${new Date().toISOString().slice(0, 10)}: ${latest?.view.command ?? ""}`, `${location.origin}${address()}${isOwnHost(location.hostname) ? " (on the computer that drew this)" : ""}`];

// a frame for another page that shows one figure alone
const embed = (plot, query) => element("button", { type: "button", class: "quiet", "aria-label": `embed ${plot.title}`, onclick: async (event) => {
  const button = event.currentTarget;
  const frame = element("iframe", { src: `${location.origin}/figure/${given.page}/${plot.name}?${query()}`, title: plot.title, width: "100%", height: plot.figure.layout.height + 250,
    style: "border:0", loading: "lazy", sandbox: "allow-scripts allow-same-origin allow-popups" });
  await copy(frame.outerHTML, "frame for a page", button);
} }, "Embed");

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

const search = byId("search"), sought = search && searching(search, given.presets, same), boxesStandIn = search ? [form, search] : [form]; // a page may have a box above its answer
const onBoxes = (kind, does) => { for (const one of boxesStandIn) one.addEventListener(kind, does); };

onBoxes("input", (event) => {
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
    typing(name);
  }
});
function settled(field) { // a box of text shows what it says as a whole
  if (field.name && field.type === "text") put(field.name, shares.joined(field.name, shares.tidied(controls.get(field.name), field.value.trim())));
  followed(); settle();
}
onBoxes("change", (event) => {
  if (event.target.id === "preset") {
    const chosen = given.presets[event.target.value];
    if (chosen) { fillBoxes(new URLSearchParams(chosen)); settle(); }
    return;
  }
  if (event.target.closest(".control")) settled(event.target);
});
form.addEventListener("submit", (event) => { event.preventDefault(); settle(); });
search?.addEventListener("click", ({ target }) => { const chosen = sought.chosen(target); if (chosen) { fillBoxes(new URLSearchParams(chosen)); settle(); } });
onBoxes("keydown", (event) => { if (event.key === "Enter" && event.target.type === "text") { event.preventDefault(); settled(event.target); } });
window.addEventListener("popstate", (event) => { if (sheet.takes(event.state, depth)) return; depth = event.state?.depth ?? 0; fromAddress(); ask(true); });
byId("undo").addEventListener("click", () => { if (isAhead()) { fromAddress(); ask(true); } else { sheet.walk(); history.back(); } });
byId("redo").addEventListener("click", () => history.forward());
byId("reset").addEventListener("click", () => { fillBoxes(new URLSearchParams()); settle(); });
byId("compare").addEventListener("click", () => {
  const named = others.filter((one) => one.name);
  others = named.length < others.length ? named : [...named.slice(0, MOST_COMPARED - 1), { name: "", query: readBoxes().toString() }];
  settle();
});
byId("add")?.addEventListener("click", addSlot);
for (const slot of slots) slot.querySelector(".remove").addEventListener("click", () => removeSlot(slot));
byId("read")?.addEventListener("click", readPasted);
document.addEventListener("keydown", (event) => { if (event.key !== "Escape") return; if (isExplaining()) closeWorking(); else if (sheet.isOpen()) sheet.close(); else if (isTouring()) endTour(); });
byId("stop").addEventListener("click", () => { again = false; asking?.stop.abort(); });
const share = sharing({ given, report, address: () => wholeAddress(given, typed, others.map(writtenScenario)) });
byId("keep-by").addEventListener("click", () => { byId("actions").hidePopover(); byId("kept").open = true; sheet.open(byId("kept-name")); byId("kept-name").focus(); });
byId("copy-command").addEventListener("click", () => copy(byId("command").textContent, "command", byId("copy-command")));
byId("first-steps").addEventListener("click", startTour);
unitsButton(byId("units"), () => { answered = null; views.clear(); settle(); });
byId("print").addEventListener("click", () => print());
byId("get-json").addEventListener("click", async () => {
  try { save(fileName("json"), "application/json", JSON.stringify(await fetched(`/api/${given.page}?${readBoxes()}`), null, 2) + "\n"); } catch (error) { complain(error); }
});
async function saved(kind, ending, type, button) {
  button.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(inUnits(`/${kind}/${given.page}?${readBoxes()}`));
    if (answer.ok) save(fileName(ending), type, await answer.text()); else complain(await answer.json());
  } finally { button.removeAttribute("aria-busy"); }
}
function report(button) { return saved("report", "html", "text/html", button); }
byId("get-report").addEventListener("click", (event) => report(event.currentTarget));
byId("get-csv").addEventListener("click", (event) => saved("csv", "csv", "text/csv", event.currentTarget));
byId("get-plan").addEventListener("click", () => { if (latest?.view.plan) save(byId("get-plan").textContent, "application/toml", latest.view.plan); });

dress(redrawn);
pickers({ form, controls, page: given.page, fetched, choose: () => { followed(); settle(); },
  precision: () => (controls.has("precision") ? typed("precision") : "") });
const sweep = sweeps({ page: given.page, controls: given.controls, form, query: readBoxes, below, fileName, matters: (one) => takesPart(one, typed), embed });
form.addEventListener("sweep", () => sheet.close());
workingOf({ now: readBoxes, other: () => (others.length === 1 ? new URLSearchParams(others[0].query) : null) }, fetched);
history.replaceState({ depth: 0 }, "");
fromAddress();
kept = keptScenarios({ page: given.page, place: byId("kept"), present: () => readBoxes().toString(), compared: () => others,
  compare: (list) => { others = list; settle(); }, open: (query) => { fillBoxes(new URLSearchParams(query)); settle(); } });
window.explainTerms(form);
ask();
