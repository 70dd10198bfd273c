// A list that scrolls within itself, and a button that says how much of it stands below.

import { make } from "./dom.js";
import { counted } from "./wording.js";

export class LongList {
  /** `noun`: what an item is called, such as "segment". */
  constructor(items, noun) {
    this.noun = noun;
    this.element = make("ol", { class: "segment-list", onscroll: () => this.showRest() },
      ...items.map((item) => make("li", {}, item)));
    this.rest = make("button", {
      class: "list-rest", type: "button", hidden: true,
      onclick: () => { this.element.scrollTop += 0.8 * this.element.clientHeight; },
    });
    this.watcher = new ResizeObserver(() => this.showRest());
    this.watcher.observe(this.element);
  }

  close() { this.watcher.disconnect(); }

  /** Scrolls to an item that is not in the visible part. */
  reveal(index) {
    const item = this.element.children[index], list = this.element;
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 3;
    }
  }

  showRest() {
    const end = this.element.scrollTop + this.element.clientHeight;
    const hidden = [...this.element.children].filter((item) => item.offsetTop + item.offsetHeight / 2 > end).length;
    this.rest.hidden = hidden === 0;
    this.rest.textContent = `${counted(hidden, `more ${this.noun}`)} below`;
    this.element.classList.toggle("goes-on", hidden > 0);
  }
}
