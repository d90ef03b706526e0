// What the boxes of a page say without a word of the reader's, and a scenario in one line.

// defaults, as the server knows them: some pages start from one of several plans, and a price holds for its own chip alone
export function defaultsOf({ controls, bases }, read) {
  const [first] = controls;
  const base = bases[read(first.name) ?? first.default] ?? {};
  const own = Object.fromEntries(controls.map((one) => [one.name, base[one.name] ?? one.default]));
  const isMoved = (name) => name && (read(name) ?? own[name]) !== own[name];
  const others = controls.filter((one) => one.follows.split("|").some(isMoved));
  return { ...own, ...Object.fromEntries(others.map((one) => [one.name, one.otherwise])) };
}

// whether a box takes part in the question that another one chooses
export function takesPart(one, read) {
  const [name, words] = one.only.split("=");
  return !one.only || words.split("|").includes(read(name));
}

// what the boxes say, by their labels; a zero that nobody typed says nothing, a number has its unit, and of several boxes
// of one name each group is named once
export function scenarioWords({ controls }, read) {
  const said = controls.filter((one) => read(one.name) && takesPart(one, read) && !(one.default === "0" && read(one.name) === "0"));
  const isRepeated = (label) => said.filter((one) => one.label === label).length > 1;
  return said.map((one, i) => {
    const text = shown(read(one.name)), hasUnit = one.unit && /^[\d.,]+[KMBT]?(\.\.[\d.,]+[KMBT]?)?$/.test(text);
    const name = !isRepeated(one.label) ? one.label : said[i - 1]?.group === one.group ? one.label.toLowerCase() : one.group;
    return `${name} ${text}${hasUnit && !one.label.toLowerCase().startsWith(one.unit.toLowerCase()) ? ` ${one.unit}` : ""}`;
  }).join("; ");
}

// a configuration in one word goes by its name, and a share of the requests in words
export const shown = (text) => (text.startsWith("config:") ? `${text.split(":")[1]}/config.json` : text.replace(/^p(\d[\d.]*):\s*(\S.*)$/, "$2 for $1 % of requests"));

// the model and the system that the boxes name, for the name of a file; of several, how many
export function fileWords({ controls }, read) {
  return ["models", "systems"].map((list) => {
    const named = controls.filter((one) => one.list === list && takesPart(one, read)).flatMap((one) => read(one.name).split(one.several || "\n"));
    const own = [...new Set(named.map((text) => shown(text.trim())).filter(Boolean))];
    return own.length > 1 ? `${own.length}-${list}` : (own[0] ?? "").replace("/config.json", "").split("/").at(-1);
  });
}
