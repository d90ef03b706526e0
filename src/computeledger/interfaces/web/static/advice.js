// What is said of a name that no model has: one line, and links to go on by.

const links = (ways) => ways.flatMap(([text, address], place) => [place ? ", " : " ", Object.assign(document.createElement("a"), { href: address, textContent: text })]);

export function advised({ message, advice }) {
  if (!advice) return [message];
  return [advice.said, ...links(advice.ways), ...(advice.opened.length ? [". Open models instead:", ...links(advice.opened)] : []), "."];
}
