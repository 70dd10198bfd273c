// The captioners of the server: lists to choose from, which all show the same choice. It is kept for the next visit.

import { make } from "./dom.js";
import { keep, recall } from "./settings.js";

let offered = [];

/** What the server has; the first is its own. */
export function offer(names) {
  offered = names;
  document.querySelectorAll("label.captioner").forEach(fill);
}

/** The chosen captioner; "" for the server's own. */
export function chosen() {
  const name = recall("captioner");
  return offered.indexOf(name) > 0 ? name : "";
}

/** A labelled list; hidden where there is nothing to choose. */
export function captionerList() {
  const list = make("select", {
    onchange: () => { keep("captioner", list.value); document.querySelectorAll("label.captioner").forEach(fill); },
  });
  return fill(make("label", { class: "pick captioner" }, make("span", {}, "Captioner"), list));
}

function fill(label) {
  const list = label.querySelector("select");
  list.replaceChildren(...offered.map((name) => make("option", { value: name }, name)));
  list.value = chosen() || (offered[0] ?? "");
  label.hidden = offered.length < 2;
  return label;
}
