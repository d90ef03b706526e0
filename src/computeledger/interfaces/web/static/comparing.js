// Several scenarios in one answer: their curves in the plots that have one, and a table of what differs.

import { shown, takesPart } from "./boxes.js";
import { alike } from "./plots.js";

const COLORS = ["#cc79a7", "#0072b2", "#b07d00", "#8a63d2", "#56b4e9", "#a0522d"];
const DASHES = ["dash", "dot", "dashdot", "longdash", "longdashdot", "6px 2px"];
const isCurve = (trace) => (trace.type ?? "scatter") === "scatter" && trace.mode === "lines+markers" && !trace.fill && trace.x?.length > 2;
const isPoint = (trace) => (trace.type ?? "scatter") === "scatter" && trace.mode === "markers" && trace.x?.length === 1;

// the first curve of each other scenario, and its point where it has one, in the plot of the same name
export function overlay(view, others) {
  for (const plot of view.plots) {
    if (!plot.figure.data.some(isCurve)) continue;
    others.forEach(({ name, view: other }, i) => {
      const same = other.plots.find((one) => one.name === plot.name);
      const curve = same?.figure.data.find(isCurve);
      if (!curve) return;
      const color = COLORS[i % COLORS.length], point = same.figure.data.find(isPoint);
      plot.figure.data.push({ ...curve, name, line: { ...curve.line, color, dash: DASHES[i % DASHES.length], width: 2 }, marker: { color, size: 4 }, showlegend: true, legendgroup: name });
      if (point) plot.figure.data.push({ ...point, name, error_x: undefined, error_y: undefined, marker: { color, size: 10, symbol: "diamond" }, showlegend: false, legendgroup: name });
      alike(plot.figure.layout, structuredClone(same.figure.layout));
    });
  }
}

const cell = (text, below = "") => ({ text, below, details: "", href: "", share: null, id: "" });

// how far this scenario's figure is from the other's
function change(own, other) {
  if (!own || !other || own.value === null || !(other.value > 0)) return "";
  const ratio = own.value / other.value, percent = 100 * (ratio - 1);
  if (Math.abs(percent) < 0.05) return "none";
  if (ratio >= 2) return `${ratio.toPrecision(2)} times`;
  return `${percent > 0 ? "+" : "\u2212"}${Math.abs(percent).toPrecision(2)}\u00a0%`;
}

// rows of the boxes that differ, in words, then those of the figures; scenarios are { name, read, view }
export function differences(controls, scenarios) {
  const labels = controls.map((one) => one.label);
  const said = (one, { read, view }) => {
    const text = read(one.name);
    if (one.kind === "switch") return text === "on" ? "on" : "off";
    if (text) return `${shown(text)}${one.unit && one.kind === "number" && /^[\d.,]+$/.test(text) ? ` ${one.unit}` : ""}`;
    return view.resolved[one.name] ? `${view.resolved[one.name]} (${one.blank || "chosen"})` : one.blank || "none";
  };
  const rows = controls.filter((one) => new Set(scenarios.map(({ read }) => read(one.name))).size > 1 && scenarios.some((each) => takesPart(one, each.read)))
    .map((one) => [labels.filter((label) => label === one.label).length > 1 && one.group ? `${one.group}: ${one.label}` : one.label,
      ...scenarios.map((each) => cell(said(one, each)))]);
  const [first] = scenarios, isPair = scenarios.length === 2;
  const figures = first.view.tiles.map((tile) => {
    const each = scenarios.map(({ view }) => view.tiles.find((one) => one.label === tile.label));
    return [tile.label, ...each.map((own) => (own ? cell(own.text, own.band) : cell("\u2013"))), ...(isPair ? [change(...each)] : [])];
  });
  if (isPair) for (const row of rows) row.push("");
  return { title: "What differs", columns: ["", ...scenarios.map(({ name }) => name), ...(isPair ? ["change"] : [])], rows: [...rows, ...figures], key: "", strong: [], is_sortable: false,
    note: rows.length ? "" : "The boxes of these scenarios say the same." };
}
