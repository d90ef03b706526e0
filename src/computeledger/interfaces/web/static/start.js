// The start page: each question is asked as the page loads, one after the other, and its answer put beside it.
import { advised } from "./advice.js";
import { fetched } from "./fetching.js";
import { parts, unbroken } from "./headline.js";
import { dress } from "./theme.js";

const piece = (name, text) => Object.assign(document.createElement("span"), { className: name, textContent: unbroken(text) });

// a range around its median, which stands in the middle of every card: ten times less on the left, ten times more on the right
function range([low, median, high]) {
  const line = Object.assign(document.createElement("span"), { className: "range", ariaHidden: "true" }), held = document.createElement("i");
  const place = (value) => Math.min(Math.max(50 + 50 * Math.log10(value / median), 0), 100);
  held.style.left = `${place(low)}%`;
  held.style.right = `${100 - place(high)}%`;
  line.append(held, document.createElement("b"));
  return line;
}

// the figure large, the words that go on from it, the interval; or else the headline
function shown({ headline, card }) {
  if (!card) {
    const said = piece("said", "");
    said.append(...parts(headline));
    return [said];
  }
  const all = [piece("figure", card.figure), " ", piece("said", card.said)];
  if (card.span[0] > 0) all.push(range(card.span));
  return card.band ? [...all, " ", piece("band", `90 % range ${card.band}`)] : all;
}

async function answer(link) {
  const place = link.querySelector(".answer");
  const tell = ({ done, total, what }) => { if (total > 1) place.replaceChildren(piece("said", `computing: ${done} of ${total} ${what}`)); };
  place.dataset.waits = "on";
  try {
    place.replaceChildren(...shown(await fetched(link.dataset.line, undefined, {}, tell)));
    delete place.dataset.waits;
    return true;
  } catch (error) {
    place.replaceChildren(piece("said", error.message ?? String(error)));
    return false;
  }
}

// a name that no open model has is told here, with ways on; the text stays
const own = document.querySelector(".own"), advice = document.getElementById("advice");
own.addEventListener("submit", async (event) => {
  event.preventDefault();
  const page = event.submitter?.getAttribute("formaction") || own.getAttribute("action");
  const query = new URLSearchParams(new FormData(own));
  try {
    await fetched(`named/${page}?${query}`);
  } catch (error) {
    if (error.control) {
      advice.replaceChildren(...advised(error));
      advice.hidden = false;
      return;
    }
  }
  location.assign(`${page}?${query}`);
});
own.addEventListener("input", () => { advice.hidden = true; });

dress(() => {});
const late = [];
for (const link of document.querySelectorAll("[data-line]")) if (!await answer(link)) late.push(link);
for (const link of late) await answer(link); // once more: what a busy machine had worked out by then is kept
document.documentElement.dataset.shown = "1";
