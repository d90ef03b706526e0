// The start page: each question is asked as the page loads, one after the other, and its answer put beside it.
import { advised } from "./advice.js";
import { fetched } from "./fetching.js";
import { parts, unbroken } from "./headline.js";
import { rank } from "./names.js";
import { dress } from "./theme.js";

const piece = (name, text) => Object.assign(document.createElement("span"), { className: name, textContent: unbroken(text) });

// a range around its median, which stands in the middle of every card: ten times less on the left, ten times more on the right
function range([low, median, high]) {
  const scale = Object.assign(document.createElement("span"), { className: "scale", ariaHidden: "true" }), line = piece("range", ""), held = document.createElement("i");
  const place = (value) => Math.min(Math.max(50 + 50 * Math.log10(value / median), 0), 100);
  held.style.left = `${place(low)}%`;
  held.style.right = `${100 - place(high)}%`;
  line.append(held, document.createElement("b"));
  scale.append("a tenth", line, "ten times");
  return scale;
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

// the browser offers names that hold what is typed as it stands; names that hold its words apart (llama 70b) are offered here
const box = document.getElementById("own-model"), meant = document.getElementById("meant"), MOST_MEANT = 6;
const names = [...document.querySelectorAll("#models option")].map((one) => one.textContent);
const bare = (name) => name.split("/").at(-1).replace("Meta-", ""); // of versions the later first
function offer() {
  const asked = box.value.trim().toLowerCase(), isHeld = names.some((name) => name.toLowerCase().includes(asked));
  const found = asked && !isHeld ? names.map((name) => [rank(name, [], asked), name]).filter(([place]) => place >= 0) : [];
  const first = found.sort(([a, one], [b, other]) => a - b || bare(other).localeCompare(bare(one), "en", { numeric: true })).slice(0, MOST_MEANT).map(([, name]) => Object.assign(document.createElement("button"),
    { type: "button", className: "quiet", textContent: name.split("/").at(-1), onclick: () => { box.value = name; meant.replaceChildren(); box.focus(); } }));
  meant.replaceChildren(...(first.length ? ["Did you mean: ", ...first] : []));
}
own.addEventListener("input", () => { advice.hidden = true; offer(); });

dress(() => {});
const late = [];
for (const link of document.querySelectorAll("[data-line]")) if (!await answer(link)) late.push(link);
for (const link of late) await answer(link); // once more: what a busy machine had worked out by then is kept
document.documentElement.dataset.shown = "1";
