// One question to the server; a long answer comes as lines that say how far it is, then the answer itself.

import { inUnits } from "./units.js";

export async function fetched(path, signal, more = {}, tellFar = () => {}) {
  let response;
  try {
    response = await fetch(inUnits(path), { ...more, signal, headers: { Accept: "application/json, application/x-ndjson" } });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw { control: "", is_worth_another_try: true, message: "no answer: is `computeledger web` still running?" };
  }
  const unexpected = { control: "", message: `unexpected answer (${response.status})` };
  if (!response.headers.get("content-type")?.includes("ndjson")) {
    const body = await response.json().catch(() => unexpected);
    if (!response.ok || signal?.aborted || body === unexpected) throw body;
    return body;
  }
  // a long answer: lines that say how far it is, then the answer
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop();
    for (const line of lines.map((one) => JSON.parse(one))) {
      if (line.status === 200) return line.body;
      if (line.status) throw line.body;
      tellFar(line);
    }
  }
  throw unexpected;
}
