// Parts of the page: made, found, and said to who does not see them.

export const root = document.documentElement;
export const byId = (id) => document.getElementById(id);
export const say = (text) => { byId("said").textContent = text; };

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}
