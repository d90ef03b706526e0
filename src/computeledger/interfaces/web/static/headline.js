// A headline in two parts: what is said, and its interval as one quiet piece; a quantity stays with its unit.
export const unbroken = (text) => text.replaceAll(" %", "\u00a0%").replaceAll("GPU-", "GPU\u2011").replace(/(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)/g, (date) => date.replaceAll("-", "\u2011"));

export function parts(text) {
  const [, said, band, rest] = /^(.*?)(?: (\(90\s%(?::| range) [^()]*\))(.*))?$/s.exec(unbroken(text));
  if (!band) return [said];
  const small = document.createElement("span");
  small.className = "band";
  small.textContent = band.replace(/90\s%: /, "90\u00a0% range ");
  return [`${said} `, small, ...(rest ? [rest] : [])];
}

// the first sentence of a text, and the others
export function sentences(text) {
  const [, first, rest] = /^(.*?[.!?])\s+(?=[A-Z])(.*)$/s.exec(text) ?? [null, text, ""];
  return [first, rest];
}

// a sentence with what stands between backticks as code
export const coded = (text) => text.split("`").map((part, place) => {
  if (place % 2 === 0) return unbroken(part);
  const code = document.createElement("code");
  code.textContent = part;
  return code;
});
