// One line at the top for what concerns the whole page: above all a server that went away.

import * as api from "./api.js";
import { byId } from "./dom.js";

const EVERY = 1500;  // milliseconds between two knocks at a server that does not answer
let knocking = null;

export function show(line) {
  const place = byId("trouble");
  place.hidden = false;
  place.textContent = line;
}

export function clear() {
  byId("trouble").hidden = true;
}

/** Says so, and gives a promise that is kept when the server answers again. */
export function serverGone() {
  knocking ??= knock();
  return knocking;
}

async function knock() {
  show("The server does not answer. What is finished is safe on its disk; this page goes on when it is back.");
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    try {
      await api.about();
    } catch (problem) {
      if (problem.isGone) continue;
    }
    break;
  }
  knocking = null;
  clear();
  document.dispatchEvent(new CustomEvent("server-back"));
}

/** For a call that nobody waits for: a gone server is told of at the top, anything else as it is. */
export function tell(problem) {
  if (problem.name === "AbortError") return;
  if (problem.isGone) serverGone();
  else show(problem.message);
}
