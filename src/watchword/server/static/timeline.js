// The segments of a video as a list that shows how far it goes on, and the chapters of a long one.

import { make } from "./dom.js";
import { LongList } from "./list.js";
import { asSentence, certainty, clock, spoken } from "./wording.js";

function mark(button, isCurrent) {
  if (isCurrent) button.setAttribute("aria-current", "true");
  else button.removeAttribute("aria-current");
}

export class Timeline {
  /** `goTo(seconds)` is called for the segment or chapter that is chosen. */
  constructor(video, goTo) {
    Object.assign(this, { video, goTo, buttons: [], chapterButtons: [] });
    this.element = make("div", { class: "timeline-lists" });
    this.build();
  }

  close() { this.list?.close(); }

  build() {
    const { segments, chapters = [] } = this.video;
    this.close();
    this.element.hidden = segments.length < 2;
    if (segments.length < 2) return;
    const hasChapters = chapters.length > 1 && chapters.length < segments.length;
    this.element.replaceChildren(...[hasChapters ? this.buildChapters() : null, this.buildSegments()].filter(Boolean));
  }

  buildSegments() {
    this.buttons = this.video.segments.map((segment) => this.button(segment.start,
      make("span", { class: `segment-button-caption${segment.unsure ? " guess" : ""}` }, spoken(segment)),
      make("span", { class: "segment-button-sure quiet" }, certainty(segment))));
    this.list = new LongList(this.buttons, "segment");
    return make("section", { "aria-labelledby": "segments-title" },
      make("h2", { id: "segments-title" }, "Timeline"), this.list.element, this.list.rest);
  }

  buildChapters() {
    this.chapterButtons = this.video.chapters.map((chapter) => this.button(chapter.start,
      make("span", { class: "segment-button-caption" }, asSentence(chapter.caption))));
    return make("section", { "aria-labelledby": "chapters-title" }, make("h2", { id: "chapters-title" }, "Chapters"),
      make("ol", { class: "chapter-list" }, ...this.chapterButtons.map((button) => make("li", {}, button))));
  }

  button(start, ...children) {
    return make("button", { class: "segment-button", type: "button", onclick: () => this.goTo(start + 0.01) },
      make("span", { class: "segment-button-time" }, clock(start)), ...children);
  }

  /** The segment on screen, or null; and its chapter. */
  showCurrent(index) {
    this.buttons.forEach((button, other) => mark(button, other === index));
    const start = this.video.segments[index]?.start;
    this.chapterButtons.forEach((button, other) => {
      const chapter = this.video.chapters[other];
      mark(button, start >= chapter.start && start < chapter.end);
    });
    if (this.buttons[index]) this.list.reveal(index);
  }
}
