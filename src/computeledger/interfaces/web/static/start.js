// The start page: each question is asked as the page loads, one after the other, and its answer put beside it.
import { fetched } from "./fetching.js";
import { dress } from "./theme.js";

// a quantity stays with its unit, and the interval reads as one piece
function line(text) {
  const [, said, band] = /^(.*?)( \(90\s%:.*\))?$/s.exec(text.replaceAll(" %", "\u00a0%").replaceAll("GPU-", "GPU\u2011"));
  if (!band) return [said];
  const small = document.createElement("span");
  small.className = "band";
  small.textContent = band.trim();
  return [`${said} `, small];
}

async function answer(link) {
  const place = link.querySelector(".said");
  const tell = ({ done, total, what }) => { if (total > 1) place.textContent = `computing: ${done} of ${total} ${what}`; };
  place.dataset.waits = "on";
  try {
    const { headline } = await fetched(link.dataset.line, undefined, {}, tell);
    place.replaceChildren(...line(headline));
    delete place.dataset.waits;
    return true;
  } catch (error) {
    place.textContent = error.message ?? String(error);
    return false;
  }
}

dress(() => {});
const late = [];
for (const link of document.querySelectorAll("[data-line]")) if (!await answer(link)) late.push(link);
for (const link of late) await answer(link); // once more: what a busy machine had worked out by then is kept
document.documentElement.dataset.shown = "1";
