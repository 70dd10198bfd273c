// The segments of a video as a list that shows how far it goes on, and the chapters of a long one.

import { make } from "./dom.js";
import { asSentence, certainty, clock, counted, spoken } from "./wording.js";

function mark(button, isCurrent) {
  if (isCurrent) button.setAttribute("aria-current", "true");
  else button.removeAttribute("aria-current");
}

export class Timeline {
  /** `goTo(seconds)` is called for the segment or chapter that is chosen. */
  constructor(video, goTo) {
    Object.assign(this, { video, goTo, buttons: [], chapterButtons: [] });
    this.element = make("div", { class: "timeline-lists" });
    this.watcher = new ResizeObserver(() => this.showRest());
    this.build();
  }

  close() { this.watcher.disconnect(); }

  build() {
    const { segments, chapters = [] } = this.video;
    this.watcher.disconnect();
    this.element.hidden = segments.length < 2;
    if (segments.length < 2) return;
    const hasChapters = chapters.length > 1 && chapters.length < segments.length;
    this.element.replaceChildren(...[hasChapters ? this.buildChapters() : null, this.buildSegments()].filter(Boolean));
  }

  buildSegments() {
    this.buttons = this.video.segments.map((segment) => this.button(segment.start,
      make("span", { class: `segment-button-caption${segment.unsure ? " guess" : ""}` }, spoken(segment)),
      make("span", { class: "segment-button-sure quiet" }, certainty(segment))));
    this.list = make("ol", { class: "segment-list", onscroll: () => this.showRest() },
      ...this.buttons.map((button) => make("li", {}, button)));
    this.rest = make("button", {
      class: "list-rest", type: "button", hidden: true, onclick: () => { this.list.scrollTop += 0.8 * this.list.clientHeight; },
    });
    this.watcher.observe(this.list);
    return make("section", { "aria-labelledby": "segments-title" },
      make("h2", { id: "segments-title" }, "Timeline"), this.list, this.rest);
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
    if (this.buttons[index]) this.scrollTo(this.buttons[index].parentElement);
  }

  scrollTo(item) {
    const { list } = this;
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 3;
    }
  }

  /** How many segments stand below the visible part of the list. */
  showRest() {
    const end = this.list.scrollTop + this.list.clientHeight;
    const hidden = [...this.list.children].filter((item) => item.offsetTop + item.offsetHeight / 2 > end).length;
    this.rest.hidden = hidden === 0;
    this.rest.textContent = `${counted(hidden, "more segment")} below`;
    this.list.classList.toggle("goes-on", hidden > 0);
  }
}
