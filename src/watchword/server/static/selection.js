// What a list of videos shows and in which order, and what is done with several of them.

import * as api from "./api.js";
import { byId, make } from "./dom.js";
import { keep, recall } from "./settings.js";
import { counted } from "./wording.js";

const SORTS = {
  newest: ["Newest first", { sort: "added", descending: true }],
  oldest: ["Oldest first", { sort: "added", descending: false }],
  name: ["Name", { sort: "name", descending: false }],
  longest: ["Longest first", { sort: "seconds", descending: true }],
  unsure: ["Least confident first", { sort: "confidence", descending: false }],
  sure: ["Most confident first", { sort: "confidence", descending: true }],
};
const SHOWN = { all: ["All", {}], unsure: ["Unsure", { unsure: true }], edited: ["Edited", { edited: true }] };
const FORMATS = { json: "JSON", csv: "CSV", text: "TXT", srt: "SRT", vtt: "VTT", chapters: "Chapters" };
const TYPING = 250;  // milliseconds without a key until the list is asked for

function list(label, choices, value, changed) {
  const select = make("select", { onchange: () => changed(select.value) },
    ...Object.entries(choices).map(([key, text]) => make("option", { value: key, selected: key === value }, text)));
  return make("label", { class: "pick" }, make("span", {}, label), select);
}

const labels = (choices) => Object.fromEntries(Object.entries(choices).map(([key, [text]]) => [key, text]));

/** The controls above the library. `changed()` asks for the list again; `act` has what is done with chosen videos. */
export class Selection {
  constructor(changed, { again, remove }) {
    Object.assign(this, { changed, again, remove });
    this.chosen = new Map();  // id -> video
    this.sort = recall("sort", "newest") in SORTS ? recall("sort", "newest") : "newest";
    this.shown = "all";
    this.name = "";
    this.format = recall("format", "json") in FORMATS ? recall("format", "json") : "json";
    this.build();
  }

  /** The query of the list. */
  get query() {
    return { ...SORTS[this.sort][1], ...SHOWN[this.shown][1], ...(this.name ? { name: this.name } : {}) };
  }

  get isFiltered() { return this.shown !== "all" || this.name !== ""; }

  build() {
    const name = make("input", { type: "text", placeholder: "Filter by name", "aria-label": "Filter by name", maxlength: "200" });
    name.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => { this.name = name.value.trim(); this.changed(); }, TYPING);
    });
    this.download = make("a", { class: "button small", download: true });
    this.acts = make("span", { class: "acts" },
      make("button", { class: "button small", type: "button", onclick: () => this.again(this.videos) }, "Describe again"),
      make("button", { class: "button small quiet-danger", type: "button", onclick: () => this.remove(this.videos) }, "Delete"),
      make("button", { class: "button small", type: "button", onclick: () => { this.clear(); this.all.focus(); } }, "Clear"));
    this.count = make("span", { class: "chosen-count", role: "status" });
    this.all = make("button", { class: "button small", type: "button", onclick: () => this.chooseAll() }, "Select all");
    byId("library-tools").replaceChildren(
      list("Sort", labels(SORTS), this.sort, (value) => { this.sort = value; keep("sort", value); this.changed(); }),
      list("Show", labels(SHOWN), this.shown, (value) => { this.shown = value; this.changed(); }),
      name,
      make("span", { class: "tools-rest" }, this.count, this.acts, this.all,
        make("span", { class: "save" },
          list("Format", FORMATS, this.format, (value) => { this.format = value; keep("format", value); this.update(); }),
          this.download)));
    this.update();
  }

  get videos() { return [...this.chosen.values()]; }

  /** The box of a card. */
  box(video) {
    const input = make("input", {
      type: "checkbox", class: "choose", "aria-label": `Select ${video.name}`, checked: this.chosen.has(video.id),
      onchange: () => {
        if (input.checked) this.chosen.set(video.id, video);
        else this.chosen.delete(video.id);
        this.update();
      },
    });
    return input;
  }

  chooseAll() {
    for (const input of document.querySelectorAll("#cards .choose:not(:checked)")) input.click();
  }

  clear() {
    this.chosen.clear();
    for (const input of document.querySelectorAll("#cards .choose:checked")) input.checked = false;
    this.update();
  }

  /** Videos that are gone are chosen no more. */
  retain(videos, isAll) {
    const there = new Set(videos.map((video) => video.id));
    if (isAll) for (const id of this.chosen.keys()) if (!there.has(id)) this.chosen.delete(id);
    this.update();
  }

  update() {
    const { size } = this.chosen;
    byId("cards").classList.toggle("choosing", size > 0);
    this.acts.hidden = size === 0;
    this.count.textContent = size ? `${counted(size, "video")} selected` : "";
    this.download.textContent = size ? `Download ${size}` : "Download all";
    this.download.href = api.exportAddress(this.format, [...this.chosen.keys()]);
  }
}
