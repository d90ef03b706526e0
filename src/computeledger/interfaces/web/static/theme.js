// Light or dark: what the reader chose last, else what the system prefers, and follows as that changes.
const root = document.documentElement;
export const theme = () => root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

// wear the kept look, and let the button change it; what is drawn in its colours follows
export function dress(changed) {
  const button = document.getElementById("theme");
  const wear = (name) => {
    root.dataset.theme = name;
    button.textContent = name === "dark" ? "Light" : "Dark"; // what it leads to
    changed();
  };
  const kept = localStorage.getItem("theme");
  const system = matchMedia("(prefers-color-scheme: dark)"), preferred = () => (system.matches ? "dark" : "light");
  const isChosen = () => ["dark", "light"].includes(localStorage.getItem("theme"));
  wear(isChosen() ? kept : preferred());
  system.addEventListener("change", () => { if (!isChosen()) wear(preferred()); });
  button.addEventListener("click", () => {
    const next = theme() === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    wear(next);
  });
}
