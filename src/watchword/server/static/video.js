// One film: the stage, what is said at this moment, what each word was read off from, and files to take away.

import * as api from "./api.js";
import { announce, byId, make, place } from "./dom.js";
import { evidenceOfShot, headsOf, light } from "./evidence.js";
import { confirmDeletion } from "./library.js";
import { Player } from "./player.js";
import * as trouble from "./trouble.js";
import { asSentence, clings, clock, confidence, counted, lookName, percent } from "./wording.js";

const FILES = [
  ["subtitles.srt", "SRT", "Subtitles for any player"],
  ["descriptions.vtt", "VTT", "WebVTT descriptions, for the web and for reading aloud"],
  ["description.json", "JSON", "Everything, for programs"],
  ["description.csv", "CSV", "A table, for spreadsheets"],
  ["description.txt", "TXT", "Plain text"],
];
const MARKS = { key_frame: "key frame", first_key_frame: "first key frame", chosen_frame: "chosen frame" };
const HOVER_WAIT = 90;  // milliseconds: a pointer that only passes does not move the film

export class FilmView {
  static async open(id, at) {
    const [film, evidence] = await Promise.all([
      api.film(id),
      api.evidence(id).catch((problem) => { if (problem.isGone) throw problem; return null; }),  // a film may have none
    ]);
    return new FilmView(film, evidence, at);
  }

  constructor(film, evidence, at) {
    Object.assign(this, { film, evidence, shot: undefined, heads: [], head: null, pinned: null, pointed: null });
    this.player = new Player(film, () => this.moved());
    this.build();
    this.onKey = (event) => { if (event.key === "Escape" && this.pinned !== null) this.pin(null); };
    document.addEventListener("keydown", this.onKey);
    if (at !== null) this.seek(at);
    this.moved();
  }

  get active() { return this.pointed ?? this.pinned; }  // the word whose evidence is shown

  seek(seconds) { this.player.seek(seconds); }

  close() {
    this.player.close();
    clearTimeout(this.hovering);
    document.removeEventListener("keydown", this.onKey);
    byId("film").replaceChildren();
  }

  // --- building --------------------------------------------------------------------------------------------------

  build() {
    const { film } = this;
    this.sentence = make("p", { class: "sentence", role: "group" });
    this.sure = make("div", { class: "sure" });
    this.alternatives = make("section", { class: "alternatives", "aria-labelledby": "alternatives-title" });
    this.title = make("h1", { class: "film-name", tabindex: "-1" }, film.name);
    const facts = [clock(film.seconds)];
    if (film.shots.length > 1) facts.push(counted(film.shots.length, "moment"));
    facts.push(`described by ${film.captioner}`);
    // Beside each other where there is room, else one below the other: in this order, which readers and keys go by too.
    const said = make("div", { class: "said" },
      this.title, make("p", { class: "quiet facts" }, facts.join(" · ")),
      this.sentence, this.sure,
      film.warnings?.length ? make("ul", { class: "warnings" }, ...film.warnings.map((line) => make("li", {}, line))) : null,
      this.alternatives);
    const rest = make("div", { class: "rest" }, film.shots.length > 1 ? this.buildMoments() : null, this.buildFiles());
    byId("film").replaceChildren(
      make("p", { class: "crumb" }, make("a", { href: "#/" }, "← Library")),
      make("div", { class: "film" }, this.player.element, said, this.buildEvidence(), rest));
  }

  buildMoments() {
    this.moments = this.film.shots.map((shot, index) => make("button", {
      class: "moment", type: "button", onclick: () => { this.pin(null); this.seek(this.film.shots[index].start + 0.01); },
    }, make("span", { class: "moment-time" }, clock(shot.start)),
    make("span", { class: "moment-sentence" }, asSentence(shot.sentence)),
    make("span", { class: "moment-sure quiet" }, confidence(shot.confidence))));
    this.momentList = make("ol", { class: "moments" }, ...this.moments.map((button) => make("li", {}, button)));
    return make("section", { "aria-labelledby": "moments-title" },
      make("h2", { id: "moments-title" }, "Moment by moment"), this.momentList);
  }

  buildEvidence() {
    this.choice = make("fieldset", { class: "choice", hidden: true });
    this.strip = make("div", { class: "strip", role: "img", onclick: (event) => this.stripClicked(event) });
    this.scale = make("p", { class: "strip-scale quiet", "aria-hidden": "true" });
    this.looked = make("p", { class: "looked", role: "status" });
    this.frames = make("ul", { class: "frames", "aria-label": "Moments that the word looked at most", hidden: true });
    this.bars = make("div", { class: "bars" });
    this.evidenceSection = make("section", { class: "evidence", "aria-labelledby": "evidence-title" },
      make("h2", { id: "evidence-title" }, "What a word was read off from"),
      this.choice, this.strip, this.scale, this.looked, this.frames, this.bars);
    return this.evidenceSection;
  }

  buildFiles() {
    const { id } = this.film;
    const links = FILES.map(([file, label, about]) =>
      make("li", {}, make("a", { class: "button small", href: api.fileAddress(id, file), download: true, title: about }, label)));
    return make("section", { class: "take", "aria-labelledby": "files-title" },
      make("h2", { id: "files-title" }, "Take it with you"),
      make("ul", { class: "files" }, ...links),
      make("button", { class: "button small quiet-danger", type: "button", onclick: () => this.remove() }, "Delete this film"));
  }

  async remove() {
    if (!await confirmDeletion(this.film)) return;
    announce(`${this.film.name} is deleted`);
    location.hash = "#/";
  }

  // --- the moment on screen ----------------------------------------------------------------------------------------

  moved() {
    if (!this.sentence) return;  // the stage is there before the rest
    const seconds = this.player.seconds;
    const shot = this.shotAt(seconds);
    if (shot !== this.shot) this.showShot(shot);
    this.showMoment(seconds);
  }

  /** Index of what is on screen; null between shots. A film's last moment still belongs to its last shot. */
  shotAt(seconds) {
    const index = this.film.shots.findIndex((shot) => seconds >= shot.start - 0.001 && seconds < shot.end);
    if (index >= 0) return index;
    const last = this.film.shots.length - 1;
    return last >= 0 && seconds >= this.film.shots[last].end - 0.25 ? last : null;
  }

  showShot(index) {
    this.shot = index;
    Object.assign(this, { pinned: null, pointed: null });
    const shot = index === null ? null : this.film.shots[index];
    this.said = shot && evidenceOfShot(this.evidence, this.film, index);
    this.heads = headsOf(this.said);
    this.head = this.heads.find((head) => head.name === this.head?.name) ?? this.heads.find((head) => head.hasPlaces)
      ?? this.heads[0] ?? null;
    this.showSentence(shot);
    this.showSure(shot);
    this.showAlternatives(shot);
    this.showChoice();
    this.moments?.forEach((button, other) => {
      if (other === index) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    this.player.showCurrent(index);
    if (this.moments && index !== null) this.scrollTo(this.moments[index].parentElement);
    this.showEvidence();
  }

  scrollTo(item) {
    const list = this.momentList;
    if (item.offsetTop < list.scrollTop || item.offsetTop + item.offsetHeight > list.scrollTop + list.clientHeight) {
      list.scrollTop = item.offsetTop - list.clientHeight / 3;
    }
  }

  showSentence(shot) {
    this.words = [];
    if (!shot) {
      this.sentence.setAttribute("aria-label", "Nothing said");
      const text = this.film.shots.length ? "Nothing was sure enough to be said here." : "Nothing was sure enough to be said.";
      this.sentence.replaceChildren(make("span", { class: "silence" }, text));
      return;
    }
    this.sentence.setAttribute("aria-label", asSentence(shot.sentence));
    const parts = [];
    shot.words.forEach((word, index) => {
      const text = index === 0 ? word.word[0].toLocaleUpperCase("en") + word.word.slice(1) : word.word;
      if (index > 0 && !clings(word.word)) parts.push(" ");
      const button = make("button", {
        class: `word${word.probability < 0.25 ? " unlikely" : ""}`, type: "button", "aria-pressed": "false",
        title: `${percent(word.probability)} likely after the words before it`, disabled: this.momentOf(index) === null,
        onclick: () => this.pin(this.pinned === index ? null : index),
        onpointerenter: (event) => { if (event.pointerType === "mouse") this.point(index); },
        onpointerleave: (event) => { if (event.pointerType === "mouse") this.point(null); },
        onfocus: () => { if (button.matches(":focus-visible")) this.point(index); },
        onblur: () => this.point(null),
        onkeydown: (event) => this.walk(event, index),
      }, text);
      this.words.push(button);
      parts.push(button);
    });
    if (!/[.!?]$/.test(shot.sentence)) parts.push(".");
    this.sentence.replaceChildren(...parts);
  }

  /** Arrow keys go from word to word. */
  walk(event, index) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.words[(index + step + this.words.length) % this.words.length].focus();
  }

  showSure(shot) {
    if (!shot) { this.sure.replaceChildren(); return; }
    const bar = make("span", { class: "sure-bar", "aria-hidden": "true" });
    bar.style.setProperty("--sure", String(shot.confidence));
    const people = Math.round(shot.confidence * 10);
    this.sure.replaceChildren(
      make("p", { class: "sure-line" }, bar, make("span", {}, "How sure: "), make("strong", {}, confidence(shot.confidence))),
      make("details", {}, make("summary", {}, "What this number means"),
        make("p", { class: "quiet" }, "It is the captioner's own estimate, between 0 and 1. If it was calibrated, "
          + `${confidence(shot.confidence)} says: of ten sentences that people say about films, about ${people} fit what `
          + "others say about the same film no better. It was fitted on few films and ranks them roughly: "
          + "trust your eyes more. Words in italics were unlikely ones.")));
  }

  showAlternatives(shot) {
    const others = shot?.alternatives ?? [];
    this.alternatives.hidden = others.length === 0;
    this.alternatives.replaceChildren(make("h2", { id: "alternatives-title" }, "It could also be"),
      make("ul", {}, ...others.map((other) => make("li", {}, make("span", {}, asSentence(other.sentence)),
        make("span", { class: "quiet", title: "How sure" }, confidence(other.confidence))))));
  }

  // --- evidence ------------------------------------------------------------------------------------------------------

  showChoice() {
    this.choice.hidden = this.heads.length < 2;
    const radios = this.heads.map((head) => make("label", {},
      make("input", {
        type: "radio", name: "head", checked: head === this.head,
        onchange: () => { this.head = head; this.goToPeak(); this.showEvidence(); },
      }), make("span", {}, lookName(head.name))));
    this.choice.replaceChildren(make("legend", { class: "unseen" }, "Stream that is looked at"), ...radios);
  }

  /** A word is held: the film stands still at the moment it looked at most. */
  pin(index) {
    this.pinned = index;
    clearTimeout(this.hovering);
    this.returnTo = undefined;
    if (index !== null) {
      this.player.pause();
      this.goToPeak();
    }
    this.showEvidence();
  }

  /** A word is pointed at: where the film stands still, it looks there meanwhile. */
  point(index) {
    if (index === this.pointed) return;
    this.pointed = index;
    clearTimeout(this.hovering);
    this.showEvidence();
    if (this.player.isPlaying) return;
    if (index === null) {
      const back = this.returnTo;
      this.returnTo = undefined;
      if (back === undefined) return;
      if (this.pinned !== null) this.goToPeak();
      else this.seek(back);
      return;
    }
    this.returnTo ??= this.player.seconds;
    this.hovering = setTimeout(() => this.goToPeak(), HOVER_WAIT);
  }

  /** When a word looked most, in seconds; a film without evidence knows at least that of most words. */
  momentOf(word) {
    if (this.head?.isEven(word)) return this.signedMoment(word);
    if (this.head) return this.head.times[this.head.ranked(word)[0]];
    return Object.values(this.film.shots[this.shot].words[word].seconds ?? {})[0] ?? null;
  }

  /** Where a head prefers no moment: what another one preferred, else the model's key frame, else the middle. */
  signedMoment(word) {
    const other = this.heads.find((head) => head.times.length > 1 && !head.isEven(word));
    if (other) return other.times[other.ranked(word)[0]];
    const key = (this.said.marks ?? []).find((mark) => mark.kind === "key_frame");
    return key?.seconds ?? this.head.times[Math.floor(this.head.times.length / 2)];
  }

  goToPeak() {
    const moment = this.active === null ? null : this.momentOf(this.active);
    if (moment === null) return;
    const { start, end } = this.film.shots[this.shot];
    // Windows of motion or sound have their middle at the edge of a shot, or a little beyond.
    this.seek(Math.min(Math.max(moment, start), Math.max(start, end - 0.02)));
  }

  showEvidence() {
    const { head, active } = this;
    this.words.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(index === this.pinned));
      button.classList.toggle("active", index === active);
    });
    this.evidenceSection.hidden = this.words.every((button) => button.disabled);
    for (const part of [this.strip, this.scale, this.frames, this.bars]) part.hidden = !head;
    this.looked.replaceChildren(...this.lookedLine(head, active));
    if (head) {
      this.showStrip(head, active);
      this.showFrames(head);
      this.showBars(active);
    }
    this.showMoment(this.player.seconds);
  }

  showStrip(head, word) {
    const { start, end } = this.film.shots[this.shot];
    const span = Math.max(end - start, 0.001);
    const edges = head.edges(start, end);
    const bars = head.times.map((_, moment) => {
      const bar = make("span", { class: "strip-bar" });
      place(bar, (edges[moment] - start) / span, (edges[moment + 1] - edges[moment]) / span);
      bar.style.setProperty("--share", String(word === null ? 0 : head.light(word, moment)));
      return bar;
    });
    const marks = (this.said.marks ?? []).filter((mark) => mark.word === null || mark.word === word).map((mark) => {
      const sign = make("span", { class: `mark ${mark.kind}`, title: `${MARKS[mark.kind] ?? mark.kind}, ${clock(mark.seconds, true)}` });
      place(sign, (mark.seconds - start) / span);
      return sign;
    });
    this.stripHead = make("span", { class: "playhead" });
    this.strip.replaceChildren(...bars, ...marks, this.stripHead);
    this.scale.replaceChildren(make("span", {}, clock(start)), make("span", {}, clock(end)));
    this.strip.setAttribute("aria-label", word === null ? "Attention over time: no word is chosen"
      : `Attention over time: ${this.looked.textContent}`);
  }

  lookedLine(head, word) {
    if (word === null) return ["Point at a word, or choose it: the film goes to the moment it was read off from."];
    const spoken = make("strong", {}, `“${this.film.shots[this.shot].words[word].word}”`);
    const when = ` looked most at ${clock(this.momentOf(word), true)}`;
    if (!head) return [spoken, `${when}. No more is kept of what it looked at.`];
    const places = head.hasPlaces ? "" : " It sees whole pictures here, not places in them.";
    if (head.isEven(word)) return [spoken, ` looked at all moments alike.${places}`];
    const [first] = head.ranked(word);
    return [spoken, `${when}: ${percent(head.share(word, first))} of its attention, where looking everywhere alike `
      + `would be ${percent(1 / head.times.length)}.${places}`];
  }

  /** The three moments of a held word; for one that is only pointed at the server is not asked. */
  showFrames(head) {
    this.frames.hidden = this.pinned === null;
    if (this.pinned === null || this.pinned === this.framesOf?.[0] && head === this.framesOf[1]) return;
    this.framesOf = [this.pinned, head];
    const word = this.pinned;
    this.frames.replaceChildren(...head.ranked(word).slice(0, 3).map((moment) => {
      const image = make("img", { src: api.frameAddress(this.film.id, head.times[moment]), alt: "", decoding: "async" });
      image.addEventListener("error", () => image.replaceWith(make("span", { class: "no-picture" })));
      return make("li", {}, make("button", {
        type: "button", class: "frame-button", onclick: () => this.seek(head.times[moment]),
        "aria-label": `Go to ${clock(head.times[moment], true)}: ${percent(head.share(word, moment))} of the attention`,
      }, image, make("span", { "aria-hidden": "true" }, `${clock(head.times[moment], true)} · ${percent(head.share(word, moment))}`)));
    }));
  }

  /** Balances that a model strikes for each word: layers, ways of looking, streams. */
  showBars(word) {
    const groups = word === null ? [] : (this.said.bars ?? []).filter(({ weights }) => weights[word]?.some((one) => one > 0));
    this.bars.replaceChildren(...groups.map(({ title, names, weights }) => make("section", { class: "balance" },
      make("h3", {}, title), make("dl", {}, ...names.flatMap((name, index) => {
        const bar = make("span", { class: "balance-bar", "aria-hidden": "true" });
        bar.style.setProperty("--share", String(weights[word][index]));
        return [make("dt", {}, name), make("dd", {}, bar, percent(weights[word][index]))];
      })))));
  }

  showMoment(seconds) {
    const { head, active } = this;
    light(this.player.canvas, head, active, seconds);
    if (active === null) delete this.player.canvas.dataset.word;
    else this.player.canvas.dataset.word = active;
    if (!head) return;
    const moment = head.momentAt(seconds);
    this.words.forEach((button, word) => button.style.setProperty("--share", String(head.light(word, moment))));
    const { start, end } = this.film.shots[this.shot];
    place(this.stripHead, Math.min(Math.max((seconds - start) / Math.max(end - start, 0.001), 0), 1));
  }

  stripClicked(event) {
    const { start, end } = this.film.shots[this.shot];
    this.player.pause();
    this.returnTo = undefined;
    this.seek(start + share(event) * (end - start));
  }
}

function share(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}
