// Whether bytes are shown in GB or in GiB: the reader's choice, kept in this browser; the server writes the words.

const KEY = "units", BINARY = "binary";
const isBinary = () => localStorage.getItem(KEY) === BINARY;

// an address of words and figures with the units they are to have
export const inUnits = (path) => (isBinary() && /^\/?(view|line|sweep|report)\//.test(path) ? `${path}${path.includes("?") ? "&" : "?"}units=${BINARY}` : path);

// the button says what it leads to
export function unitsButton(button, changed) {
  const label = () => { button.textContent = isBinary() ? "Bytes in GB" : "Bytes in GiB"; };
  label();
  button.addEventListener("click", () => {
    if (isBinary()) localStorage.removeItem(KEY); else localStorage.setItem(KEY, BINARY);
    label();
    changed();
  });
}
