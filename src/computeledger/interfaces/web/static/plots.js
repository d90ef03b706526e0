// Plots of an answer: when each is drawn, in which look, and on paper.

import { root } from "./dom.js";
import { theme } from "./theme.js";

const given = JSON.parse(document.getElementById("data").textContent);

const narrow = matchMedia("(max-width: 56rem)");

// plots in view are drawn before an answer counts as shown, those near the view as soon as nothing else is to do, and
// the others when they come near it or the drag is over: a drag moves what one looks at
const waiting = new WeakMap();
const inSight = new WeakSet();
export const canvases = () => [...document.querySelectorAll(".canvas")];
const isInView = ({ top, bottom }) => top < innerHeight && bottom > 0;
export const seen = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting, boundingClientRect } of entries) {
    if (isIntersecting) inSight.add(target); else inSight.delete(target);
    if (isIntersecting && waiting.has(target) && isInView(boundingClientRect)) paintNow(target);
  }
  paintNear();
}, { rootMargin: "200px" });
const libraryLoaded = new Promise((go) => {
  if (window.Plotly) go(); else document.addEventListener("DOMContentLoaded", go, { once: true });
});

// where there is room, a figure takes its lower height, with its words beside its marks; where there is little, a part of its axis
function roomy(figure) {
  const { wide, narrow: part } = figure.layout.meta ?? {};
  if (part && narrow.matches) return { ...figure, layout: { ...figure.layout, xaxis: { ...figure.layout.xaxis, ...part.xaxis } } };
  if (!wide || narrow.matches) return figure;
  const annotations = figure.layout.annotations.map((one, i) => ({ ...one, ...wide.notes[i] }));
  const across = Object.fromEntries(["xaxis", "xaxis2"].map((name) => [name, { ...figure.layout[name], domain: wide.domain }]));
  return { ...figure, layout: { ...figure.layout, ...across, height: wide.height, annotations } };
}

// marks that lead to who published them say so
const touches = !matchMedia("(hover: hover)").matches;
function leading(figure) {
  const leads = figure.layout.meta?.leads;
  if (!leads) return figure;
  const said = (one) => one.hovertext.map((text, i) => `${text}${leads[one.customdata[i]] ? `<br>press ${touches ? "again" : "it"} for its source` : ""}`);
  return { ...figure, data: figure.data.map((one) => one.customdata && one.hovertext ? { ...one, hovertext: said(one) } : one) };
}

// a label is never wider than its plot: on a narrow screen its lines end at spaces; a figure that is filled in later counts
// as a word
const BESIDE_PX = 72, LABEL_FONT = "600 13px Inter, system-ui, sans-serif"; // what the page and the label keep free beside the words
const ruler = document.createElement("canvas").getContext("2d");
function wrapped(text) {
  const most = innerWidth - BESIDE_PX;
  const width = (words) => ruler.measureText(words.replace(/<[^>]*>/g, "").replace(/%\{[^}]*\}/g, "000000")).width;
  const lines = (line) => {
    const done = [""];
    for (const word of line.split(/ (?![^<]*>)(?![^{]*\})/)) {
      const longer = done.at(-1) ? `${done.at(-1)} ${word}` : word;
      if (done.at(-1) && width(longer) > most) done.push(word); else done[done.length - 1] = longer;
    }
    return done.join("<br>");
  };
  return text.split("<br>").map((line) => (width(line) > most ? lines(line) : line)).join("<br>");
}
const each = (texts, how) => (Array.isArray(texts) ? texts.map((one) => (typeof one === "string" ? how(one) : one)) : typeof texts === "string" ? how(texts) : texts);
function fitting(figure) {
  if (!narrow.matches) return figure;
  ruler.font = LABEL_FONT;
  const data = figure.data.map((one) => {
    if (one.hoverinfo === "skip" || !(one.hovertemplate || one.hovertext)) return one;
    const isText = !one.hovertext && one.text && JSON.stringify(one.hovertemplate).includes("%{text}"); // text may be drawn as well: it stays
    const template = isText ? each(one.hovertemplate, (said) => said.replaceAll("%{text}", "%{hovertext}")) : one.hovertemplate;
    const said = one.hovertext ?? (isText ? one.text : undefined);
    return { ...one, ...(template && { hovertemplate: each(template, wrapped) }), ...(said && { hovertext: each(said, wrapped) }) };
  });
  return { ...figure, data };
}
function follow(canvas, { customdata, curveNumber, pointIndex }) {
  const address = typeof customdata === "number" ? canvas.figure.layout.meta?.leads?.[customdata] : customdata, mark = `${curveNumber} ${pointIndex}`;
  const isNamed = !touches || canvas.tapped === mark; // a first tap only shows the name
  canvas.tapped = mark;
  if (!isNamed || typeof address !== "string") return;
  if (address.startsWith("/")) location.assign(address);
  else if (/^https?:\/\//.test(address)) window.open(address, "_blank", "noreferrer");
}

// a browser tells a tap twice: as a finger, then as a mouse
const ECHO_MS = 700;
function isEcho(canvas, event) {
  if (event?.type === "touchstart") canvas.touched = event.timeStamp;
  return event?.type === "mousedown" && event.timeStamp - (canvas.touched ?? -Infinity) < ECHO_MS;
}

export function want(canvas, given) {
  const figure = fitting(leading(roomy(given)));
  const asked = JSON.stringify(figure);
  if (canvas.asked === asked) return; // as it is drawn, or waits to be
  canvas.asked = asked;
  waiting.set(canvas, figure);
  canvas.style.height = `${figure.layout.height}px`;
}

// a title may hold figures of the answer: its words, those of the buttons below it, and what these give away follow
const plotted = new WeakMap();
export function retitle(figure, plot) {
  const first = plotted.get(figure) ?? plot, { title: old } = first;
  plotted.set(figure, first);
  if (old === plot.title) return;
  first.title = plot.title;
  figure.querySelector("h2").textContent = plot.title;
  for (const one of figure.querySelectorAll(".buttons [aria-label]")) one.setAttribute("aria-label", one.getAttribute("aria-label").replace(old, plot.title));
}

export async function paintInView() {
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
    const next = window.Plotly && canvases().find((one) => waiting.has(one) && one.checkVisibility());
    if (root.dataset.asking) return;
    if (!next) { root.dataset.settled = "on"; return; }
    paintNow(next);
    paintRest(0);
  }, { timeout: SETTLED_MS }), after_ms); // a machine that is never idle draws them all the same
}

export function paintNow(canvas, sized = {}, look = theme()) {
  if (!window.Plotly) return;
  const figure = waiting.get(canvas), config = canvas.figure ? undefined : given.config; // it is the same for all, and is compared where it is given again
  canvas.figure = figure;
  waiting.delete(canvas);
  window.Plotly.react(canvas, figure.data, { ...figure.layout, ...sized, template: given.templates[look] }, config);
  if (!canvas.leads) {
    canvas.leads = true;
    canvas.on("plotly_click", ({ points: [point], event }) => { if (!isEcho(canvas, event)) follow(canvas, point); });
    if (touches) canvas.addEventListener("mouseout", (event) => event.stopPropagation(), true); // no finger leaves: a label stays
  }
}

// a tap elsewhere puts a label away
if (touches) addEventListener("click", ({ target }) => { for (const one of canvases()) if (one.figure && !one.contains(target)) window.Plotly.Fx.unhover(one); });

export const paintIfWaiting = (canvas) => { if (waiting.has(canvas)) paintNow(canvas); };

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

export function redrawn() {
  for (const canvas of canvases()) if (canvas.figure) { waiting.set(canvas, waiting.get(canvas) ?? canvas.figure); if (inSight.has(canvas)) paintNow(canvas); }
}

// two scenarios side by side are measured by the same rule; an axis that only orders rows stays
export function alike(one, other) {
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
