// Two columns of figures that end at one height: what the shorter one lacks is shared among its figures.

const LEAST_PX = 2, MOST_PX = 260; // a column that is far shorter stays as it is: blank cards say less than blank paper

// figures between those that take the whole width, by the column they stand in
function columnsOf(plots) {
  const runs = [[]];
  for (const one of plots.children) if (one.classList.contains("wide")) runs.push([]); else runs.at(-1).push(one);
  return runs.map((run) => Map.groupBy(run.map((one) => ({ one, place: one.getBoundingClientRect() })), ({ place }) => Math.round(place.left)));
}

function even(plots) {
  for (const one of plots.children) one.style.removeProperty("--least-height");
  for (const columns of columnsOf(plots)) {
    const ends = [...columns.values()].map((own) => own.at(-1).place.bottom), foot = Math.max(...ends);
    [...columns.values()].forEach((own, i) => {
      const lacks = foot - ends[i];
      if (columns.size < 2 || lacks < LEAST_PX || lacks > MOST_PX * own.length) return;
      for (const { one, place } of own) one.style.setProperty("--least-height", `${(place.height + (lacks - 1) / own.length).toFixed(2)}px`);
    });
  }
}

const AFTER_MS = 300; // a slider that moves waits for no measuring: its figures keep their heights until it rests
const resting = new WeakMap();

// the height of the whole is that of its longest column, which this leaves as it is: it is asked again when that changes
const sizes = new ResizeObserver((seen) => { for (const { target } of seen) keepEven(target); });

export function keepEven(plots) {
  if (resting.has(plots)) clearTimeout(resting.get(plots)); else sizes.observe(plots);
  resting.set(plots, setTimeout(() => even(plots), resting.has(plots) ? AFTER_MS : 0));
}
