// Correcting a caption by hand. The captioner's own stays one click away.

import * as api from "./api.js";
import { announce, icon, make } from "./dom.js";
import * as trouble from "./trouble.js";

const MOST = 500;  // characters

export class CaptionEditor {
  /** `changed()` is called when the server has another caption, `turned()` to show the other of the two. */
  constructor(video, { changed, turned }) {
    Object.assign(this, { video, changed, turned });
    this.element = make("div", { class: "edit" });
  }

  /** The line below a caption: what was done by hand, and what can be. */
  show(index, segment, isOriginal) {
    Object.assign(this, { index, segment });
    this.element.hidden = !segment;
    if (!segment) return;
    const edit = make("button", { class: "button small edit-button", type: "button", onclick: () => this.open() },
      icon("pen"), segment.edited ? "Edit again" : "Edit caption");
    if (!segment.edited) { this.element.replaceChildren(edit); return; }
    this.element.replaceChildren(
      make("span", { class: "tag" }, isOriginal ? "The original caption" : "Edited by hand"),
      make("button", { class: "button small", type: "button", onclick: () => this.turned() },
        isOriginal ? "Show the edited caption" : "Show the original"),
      isOriginal
        ? make("button", { class: "button small", type: "button", onclick: () => this.restore() }, "Restore the original")
        : edit);
  }

  open() {
    const text = make("textarea", { rows: "2", maxlength: String(MOST), "aria-label": "Caption", spellcheck: "true" });
    text.value = this.segment.caption;
    const save = () => this.save(text.value);
    text.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { event.stopPropagation(); this.close(); }
      if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); save(); }
    });
    this.element.replaceChildren(make("form", {
      class: "edit-form", onsubmit: (event) => { event.preventDefault(); save(); },
    }, text, make("div", { class: "edit-buttons" },
      make("button", { class: "button small strong", type: "submit" }, "Save"),
      make("button", { class: "button small", type: "button", onclick: () => this.close() }, "Cancel"))));
    text.focus();
    text.select();
  }

  close() {
    this.show(this.index, this.segment, false);
    this.element.querySelector(".edit-button")?.focus();
  }

  async save(text) {
    if (!text.trim()) { trouble.show("Write at least a word, or restore the original."); return; }
    await this.send(() => api.editCaption(this.video.id, this.index, text), "The caption is saved");
  }

  restore() { return this.send(() => api.restoreCaption(this.video.id, this.index), "The original caption is restored"); }

  async send(request, line) {
    try {
      await request();
      trouble.clear();
      await this.changed();
      announce(line);
      this.element.querySelector("button")?.focus();
    } catch (problem) {
      trouble.tell(problem);
    }
  }
}
