// Taking away: files, and pictures that say what they show, of which scenario, and from where.

import { element, root } from "./dom.js";
import { paintIfWaiting } from "./plots.js";

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");

// a file's name from words that the page declares: letters, digits, points and hyphens alone
const slug = (word) => word.toLowerCase().replace(/[^a-z0-9.]+/g, "-").slice(0, 40).replace(/^[-.]+|[-.]+$/g, "");
export const named = (words, ending) => `${["computeledger", ...words].map(slug).filter(Boolean).join("-")}.${ending}`;

export function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// the page's typeface within a picture, which sees nothing outside itself; asked once, and held by the browser by then
let typeface = null;
const bytesOf = async (address) => new Uint8Array(await (await fetch(address)).arrayBuffer());
const face = async (weights, file) => `@font-face{font-family:Inter;font-weight:${weights};src:url(data:font/woff2;base64,${btoa(String.fromCharCode(...await bytesOf(`/static/${file}`)))})}`;
const faces = () => (typeface ??= Promise.all([face("400 500", "inter-3.19-400.woff2"), face("600 700", "inter-3.19-600.woff2")]).then((all) => `<style>${all.join("")}</style>`));

// a picture says what it shows, of which scenario, and from where, on an opaque ground
export async function picture(canvas, format, { title, name, below }) {
  paintIfWaiting(canvas);
  const width = Math.max(canvas.clientWidth, 640), height = canvas.clientHeight, look = getComputedStyle(root);
  const inner = await window.Plotly.toImage(canvas, { format: "svg", width, height });
  const color = (name) => look.getPropertyValue(name).trim();
  let y = 0, body = "";
  const write = (text, size, weight, ink) => wrapped(text, (width - 32) / (size * 0.52)).forEach((line) => {
    y += size * 1.45;
    body += `<text x="16" y="${y}" font-size="${size}" font-weight="${weight}" fill="${ink}">${escaped(line)}</text>`;
  });
  y = 12;
  write(title, 18, 650, color("--ink"));
  write(canvas.closest("figure").querySelector("figcaption").textContent, 12, 400, color("--quiet"));
  const drawn = decodeURIComponent(inner.slice(inner.indexOf(",") + 1)).replace(/^<svg /, `<svg x="0" y="${(y += 12)}" `);
  y += height;
  for (const line of below) write(line, 11, 400, color("--quiet"));
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="${width}" height="${y + 16}" viewBox="0 0 ${width} ${y + 16}" font-family="${escaped(look.getPropertyValue("--font"))}">`
    + `${await faces()}<rect width="100%" height="100%" fill="${color("--card")}"/>${body}${drawn}</svg>`;
  if (format === "svg") return save(name, "image/svg+xml", svg);
  const picture = new Image();
  picture.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await picture.decode();
  const sheet = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * (y + 16) });
  sheet.getContext("2d").drawImage(picture, 0, 0, sheet.width, sheet.height);
  return save(name, "image/png", await new Promise((go) => sheet.toBlob(go)));
}
function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(/[ \t\n]+/)) { // a number stays with its unit
    if (lines.at(-1).length + word.length + 1 > most && lines.at(-1)) lines.push(word); else lines[lines.length - 1] += `${lines.at(-1) && " "}${word}`;
  }
  return lines;
}
