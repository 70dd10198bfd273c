// What is said, written and heard: a band and a list for each lane, and a switch that hides them.

import { make, place } from "./dom.js";
import { LongList } from "./list.js";
import { clock, confidence, counted } from "./wording.js";

const TITLES = { speech: "Said", text: "Written", sounds: "Heard" };

export class Lanes {
  constructor(video, player) {
    this.player = player;
    this.lanes = Object.entries(TITLES).filter(([name]) => video.lanes?.[name])
      .map(([name, title]) => this.build(name, title, video.lanes[name], video));
    this.element = this.lanes.length ? make("section", { class: "lanes", "aria-labelledby": "lanes-title" },
      make("h2", { id: "lanes-title" }, "Said, written, heard"),
      make("fieldset", { class: "choice" }, make("legend", { class: "unseen" }, "Lanes to show"),
        ...this.lanes.map((lane) => lane.choice)),
      ...this.lanes.map((lane) => lane.element)) : null;
  }

  build(name, title, cues, { seconds, language }) {
    const bands = cues.map((cue) => {
      const band = make("span", { class: "segment", title: `${clock(cue.start)} ${cue.text}` });
      place(band, cue.start / (seconds || 1), (cue.end - cue.start) / (seconds || 1));
      band.style.setProperty("--sure", String(cue.confidence));
      return band;
    });
    const buttons = cues.map((cue) => make("button", {
      class: "segment-button", type: "button", onclick: () => this.player.seek(cue.start + 0.01),
    }, make("span", { class: "segment-button-time" }, clock(cue.start)),
    make("span", { class: "segment-button-caption" }, cue.text)));
    const spoken = name === "speech" && language ? `, language ${language.code} (${confidence(language.probability)})` : "";
    const list = cues.length ? new LongList(buttons, "cue") : null;
    const element = make("section", { class: "lane", "aria-label": title },
      make("h3", {}, `${title} `, make("span", { class: "quiet" }, `${counted(cues.length, "cue")}${spoken}`)),
      list && make("div", { class: "lane-band", "aria-hidden": "true" }, ...bands), list?.element, list?.rest);
    const choice = make("label", {}, make("input", {
      type: "checkbox", checked: true, onchange: (event) => this.turn(name, element, event.target.checked),
    }), make("span", {}, title));
    return { cues, bands, buttons, list, element, choice, current: new Set() };
  }

  close() {
    for (const { list } of this.lanes) list?.close();
  }

  turn(name, element, isOn) {
    element.hidden = !isOn;
    if (name === "speech") this.player.showSubtitles(isOn);
  }

  /** Marks what is there at a time. */
  show(seconds) {
    for (const { cues, bands, buttons, list, current } of this.lanes) {
      cues.forEach((cue, index) => {
        const isNow = seconds >= cue.start && seconds < cue.end;
        if (isNow === current.has(index)) return;  // called for every frame: only what changes is touched
        bands[index].classList.toggle("current", isNow);
        if (isNow) buttons[index].setAttribute("aria-current", "true");
        else buttons[index].removeAttribute("aria-current");
        if (isNow) current.add(index);
        else current.delete(index);
        if (isNow) list.reveal(index);
      });
    }
  }
}
