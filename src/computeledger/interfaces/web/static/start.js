// The start page: each question is asked as the page loads, one after the other, and its answer put beside it.
import { fetched } from "./fetching.js";
import { parts } from "./headline.js";
import { dress } from "./theme.js";

async function answer(link) {
  const place = link.querySelector(".said");
  const tell = ({ done, total, what }) => { if (total > 1) place.textContent = `computing: ${done} of ${total} ${what}`; };
  place.dataset.waits = "on";
  try {
    const { headline } = await fetched(link.dataset.line, undefined, {}, tell);
    place.replaceChildren(...parts(headline));
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
