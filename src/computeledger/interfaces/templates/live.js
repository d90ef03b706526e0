// A served page takes the newest answer and puts it where the last one stands; where it has other parts it loads anew.
(() => {
  const state = document.getElementById("live");
  // taken before anything else touches the page: rows may be ordered by a reader, and words explained
  const rows = (page) => [...page.querySelectorAll("main section tbody tr")];
  const shape = (page) => [
    ...[...page.querySelectorAll("[data-plot]")].map((one) => one.dataset.plot),
    ...rows(page).map((row) => `${row.cells.length} ${row.cells[0].textContent}`),
  ].join("\n");
  const stand = rows(document);
  const known = shape(document);
  const told = () => new Date().toISOString().slice(11, 19);
  let last = told();

  function say(silence) {
    state.textContent = silence || `Live: updated ${last} UTC`;
    if (silence) state.dataset.silent = silence;
    else delete state.dataset.silent;
  }

  function put(next) {
    const header = document.querySelector("header.page");
    header.innerHTML = next.querySelector("header.page").innerHTML;
    window.explainTerms?.(header);
    rows(next).forEach((row, place) => {
      [...row.cells].slice(1).forEach((cell, column) => {
        const here = stand[place].cells[column + 1];
        if (here.innerHTML !== cell.innerHTML) here.innerHTML = cell.innerHTML;
      });
    });
    document.getElementById("data").textContent = next.getElementById("data").textContent;
    dispatchEvent(new Event("renewed"));
  }

  async function renew() {
    try {
      const answer = await fetch("/now", { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (shape(next) !== known) {
        location.reload();
        return;
      }
      put(next);
      last = told();
      say(next.getElementById("live").dataset.silent);
    } catch {
      say(`computeledger watch does not answer since ${last} UTC`);
    }
    setTimeout(renew, 1000 * state.dataset.every);
  }
  say(state.dataset.silent);
  setTimeout(renew, 1000 * state.dataset.every);
})();
