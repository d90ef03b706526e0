// Numbers as people type them, and where they stand on a slider.

const SUFFIX = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "K"]];
const SCALE = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, B: 1e9, T: 1e12, P: 1e15 };

function parsed(text) {
  const match = /^\s*([\d.]+(?:[eE][+-]?\d+)?)\s*([kKMGBTP]?)\s*$/.exec(text);
  return match ? Number(match[1]) * (SCALE[match[2]] ?? 1) : NaN;
}

export function ends(text) {
  const parts = text.split("..");
  if (parts.length > 2) return null;
  const values = parts.map(parsed);
  const scale = SCALE[parts.at(-1).trim().at(-1)] ?? 1;
  // a suffix written once holds for both ends, as long as they stay in order
  if (parts.length === 2 && !/[a-zA-Z]\s*$/.test(parts[0]) && values[0] * scale < values[1]) values[0] *= scale;
  return values.every((value) => value >= 0) ? values : null;
}

export function written(value, whole) {
  if (whole && (value < 1e4 || Number.isInteger(Math.log2(value)))) return String(Math.round(value));
  if (value >= 1e17) return value.toExponential(2).replace("+", "").replace(/\.?0+e/, "e");
  if (value < 1e4 * 0.9995) return String(whole ? Math.round(value) : Number(value.toPrecision(3)));
  const [size, name] = SUFFIX.find(([least]) => value >= least * 0.9995);
  return Number((value / size).toPrecision(3)) + name;
}

// without the unit that stands beside the box
const bare = (one, text) => (one.unit && text.endsWith(one.unit) ? text.slice(0, -one.unit.length) : text);

export function positionOf(one, text) {
  const values = ends(bare(one, text));
  if (!values) return null;
  if (one.has_zero && Math.max(...values) === 0) return 0;
  const value = values.length === 1 ? values[0] : one.log ? Math.sqrt(values[0] * values[1]) : (values[0] + values[1]) / 2;
  const share = one.log ? Math.log(Math.max(value, one.low) / one.low) / Math.log(one.high / one.low)
    : (value - one.low) / (one.high - one.low);
  return Math.round(1000 * Math.min(1, Math.max(0, share)));
}

export function textAt(one, position, before) {
  const share = position / 1000;
  if (one.has_zero && position === 0) return "0";
  const free = one.log ? one.low * (one.high / one.low) ** share : one.low + share * (one.high - one.low);
  const value = one.is_power ? 2 ** Math.round(Math.log2(free)) : free;
  const old = ends(bare(one, before));
  if (!old || old.length === 1 || !(old[0] > 0)) return written(value, one.whole);
  const middle = one.log ? Math.sqrt(old[0] * old[1]) : (old[0] + old[1]) / 2;
  return old.map((end) => written((end * value) / middle, one.whole)).join("..");
}
