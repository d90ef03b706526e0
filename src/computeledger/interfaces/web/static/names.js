// A box that is not being worked in shows what people call its choice (8 H200, DeepSeek-V3); its value stays the id.

import { byId } from "./dom.js";

const words = (text) => text.toLowerCase().split(/[^a-z0-9.]+/).filter(Boolean);
const own = (id) => id.split("/").at(-1).replace(/^Meta-/i, "");

// of a list's names those that one choice alone has
export function namesOf({ list, choices }, systems) {
  const all = choices.filter(Boolean).map((id) => [id, list === "models" ? own(id) : systems[id] ?? id]), counts = new Map();
  for (const [, name] of all) counts.set(name, (counts.get(name) ?? 0) + 1);
  return new Map(all.filter(([, name]) => counts.get(name) === 1));
}

export function namedBoxes({ form, controls, systems }) {
  const boxes = [...form.querySelectorAll(".box-name")].map((place) => {
    const input = byId(place.dataset.of);
    return { place, input, names: namesOf(controls.get(input.name), systems) };
  });
  return { tell: () => {
    for (const { place, input, names } of boxes) {
      const name = names.get(input.value.trim()) ?? "";
      if (place.textContent !== name) place.textContent = name;
      input.title = name && input.value;
    }
  } };
}

// where a choice stands in a list: itself, whole name, name behind its publisher, its words in their order, a word that
// begins so, anywhere; several words must all be there
export function rank(name, aliases, asked) {
  const lower = name.toLowerCase(), all = [lower, ...aliases.map((one) => one.toLowerCase())];
  if (!asked) return 0;
  const short = own(lower), parts = words(asked), named = words(short);
  const follow = (least) => named.length >= least && parts.every((part, i) => named[i] === part);
  if (lower === asked || all.slice(1).includes(asked) || (named.length === parts.length && follow(1))) return 0;
  if (lower.startsWith(asked)) return 0.5;
  if (short.startsWith(asked)) return /^[\w.]/.test(short.slice(asked.length)) ? 1.5 : 1; // qwen3 is Qwen3-8B before Qwen3.5
  if (parts.length > 1 && follow(parts.length)) return 1.75;
  const begins = (text) => parts.every((part) => words(text).some((word) => word.startsWith(part)));
  if (begins(lower)) return 2;
  if (all.some((text) => parts.every((part) => text.includes(part)))) return begins(all.join(" ")) ? 3 : 4;
  return -1;
}
