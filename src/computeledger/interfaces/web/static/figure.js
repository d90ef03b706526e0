// One figure of an answer alone, for a frame in another page: title, plot, caption, scenario, and the way to the page.

import { defaultsOf, scenarioWords } from "./boxes.js";
import { overlay } from "./comparing.js";
import { byId, element } from "./dom.js";
import { fetched } from "./fetching.js";
import { redrawn, seen, want } from "./plots.js";
import { MOST_COMPARED, read as readScenario } from "./scenarios.js";

const given = JSON.parse(byId("data").textContent);
const query = new URLSearchParams(location.search), others = query.getAll("vs").slice(0, MOST_COMPARED).map(readScenario);
const key = decodeURIComponent(location.pathname.split("/").at(-1)), place = byId("figure");
query.delete("vs");
query.delete("token");

async function answered() {
  if (key === "sweep") return (await fetched(`/sweep/${given.page}?${query}`)).plot;
  const [view, ...views] = await Promise.all([query, ...others.map((one) => one.query)].map((one) => fetched(`/view/${given.page}?${one}`)));
  if (others.length) overlay(view, others.map(({ name }, i) => ({ name: name || "compared with", view: views[i] })));
  const plot = view.plots.find((one) => one.name === key);
  if (!plot) throw { message: `no figure of this name in the answer; there are: ${view.plots.map((one) => one.name).join(", ")}` };
  return plot;
}

function show(plot) {
  const canvas = element("div", { class: "canvas", role: "img", "aria-label": `${plot.title}. ${plot.caption}` });
  place.querySelector("h1").textContent = plot.title;
  place.querySelector("figcaption").textContent = plot.caption;
  place.querySelector("h1").after(canvas);
  document.title = `${plot.title} · Compute Ledger`;
  seen.observe(canvas);
  want(canvas, plot.figure);
}

const boxes = new URLSearchParams(query);
for (const name of ["sweep", "figure"]) boxes.delete(name);
const usual = defaultsOf(given, (name) => boxes.get(name));
byId("scenario").textContent = scenarioWords(given, (name) => boxes.get(name) ?? usual[name]);
for (const one of others) boxes.append("vs", one.name ? `${one.name}|${one.query}` : one.query);
byId("page").href = `/${given.page}${boxes.size ? `?${boxes}` : ""}`;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawn);
try { show(await answered()); } catch (error) { byId("e-").textContent = error.message ?? String(error); byId("e-").hidden = false; }
document.documentElement.dataset.shown = "1";
