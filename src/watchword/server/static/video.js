// One video: the player, the caption of the current segment, the attention of each word, and downloads.

import * as api from "./api.js";
import { announce, byId, make, place } from "./dom.js";
import { drawOverlay, headsOf } from "./attention.js";
import { captionerList } from "./captioners.js";
import { CaptionEditor } from "./editor.js";
import { Lanes } from "./lanes.js";
import { confirmDeletion } from "./library.js";
import { Player } from "./player.js";
import { Timeline } from "./timeline.js";
import * as trouble from "./trouble.js";
import { asSentence, certainty, clings, clock, confidence, counted, headName, percent, spoken } from "./wording.js";

const FILES = [
  ["subtitles.srt", "SRT", "Subtitles for any player"],
  ["descriptions.vtt", "VTT", "WebVTT descriptions, for the web and for reading aloud"],
  ["description.json", "JSON", "Everything, for programs"],
  ["description.csv", "CSV", "A table, for spreadsheets"],
  ["description.txt", "TXT", "Plain text"],
  ["chapters.vtt", "Chapters", "WebVTT chapters"],
];
const MARKS = { key_frame: "key frame", first_key_frame: "first key frame", chosen_frame: "chosen frame" };
const HOVER_WAIT = 90;  // milliseconds: a pointer that only passes does not move the video

export class VideoView {
  static async open(id, at) {
    const [video, attention] = await Promise.all([
      api.video(id),
      api.attention(id).catch((problem) => { if (problem.isGone) throw problem; return null; }),  // a video may have none
    ]);
    return new VideoView(video, attention, at);
  }

  constructor(video, attention, at) {
    Object.assign(this, { video, attention, segment: undefined, heads: [], head: null, pinned: null, pointed: null });
    this.isOriginal = false;  // whether the captioner's caption is shown in place of the edited one
    this.editor = new CaptionEditor(video, {
      changed: () => this.reload(),
      turned: () => { this.isOriginal = !this.isOriginal; this.showSegment(this.segment); },
    });
    this.player = new Player(video, () => this.moved());
    this.lanes = new Lanes(video, this.player);
    this.build();
    this.onKey = (event) => { if (event.key === "Escape" && this.pinned !== null) this.pin(null); };
    document.addEventListener("keydown", this.onKey);
    if (at !== null) this.seek(at);
    this.moved();
  }

  get active() { return this.pointed ?? this.pinned; }  // the word whose attention is shown

  seek(seconds) { this.player.seek(seconds); }

  /** The segment on screen, with the caption that is shown. */
  get current() {
    const segment = this.video.segments[this.segment];
    return this.isOriginal && segment?.original ? { ...segment, ...segment.original, edited: false } : segment;
  }

  /** After an edit: the same time, another caption. */
  async reload() {
    const { segments, chapters } = await api.video(this.video.id);
    Object.assign(this.video, { segments, chapters });
    this.isOriginal = false;
    this.timeline.build();
    this.player.retell();
    this.showSegment(this.segment);
  }

  close() {
    this.timeline.close();
    this.lanes.close();
    this.player.close();
    clearTimeout(this.hovering);
    document.removeEventListener("keydown", this.onKey);
    byId("video").replaceChildren();
  }

  // --- building --------------------------------------------------------------------------------------------------

  build() {
    const { video } = this;
    this.caption = make("p", { class: "caption", role: "group" });
    this.guess = make("p", { class: "tag unsure guess-line", hidden: true }, "Unsure: this is a guess");
    this.sure = make("div", { class: "sure" });
    this.alternatives = make("section", { class: "alternatives", "aria-labelledby": "alternatives-title" });
    this.title = make("h1", { class: "video-name", tabindex: "-1" }, video.name);
    const facts = [clock(video.seconds)];
    if (video.segments.length > 1) facts.push(counted(video.segments.length, "segment"));
    facts.push(`described by ${video.captioner}`);
    // Beside each other where there is room, else one below the other: in this order, which readers and keys go by too.
    const said = make("div", { class: "said" },
      this.title, make("p", { class: "quiet facts" }, facts.join(" · ")),
      this.guess, this.caption, this.editor.element, this.sure,
      video.warnings?.length ? make("ul", { class: "warnings" }, ...video.warnings.map((line) => make("li", {}, line))) : null,
      this.alternatives);
    this.timeline = new Timeline(video, (seconds) => { this.pin(null); this.seek(seconds); });
    const rest = make("div", { class: "rest" }, this.lanes.element, this.timeline.element, this.buildFiles());
    byId("video").replaceChildren(
      make("p", { class: "crumb" }, make("a", { href: "#/" }, "← Library")),
      make("div", { class: "video" }, this.player.element, said, this.buildAttention(), rest));
  }

  buildAttention() {
    this.choice = make("fieldset", { class: "choice", hidden: true });
    this.strip = make("div", { class: "strip", role: "img", onclick: (event) => this.stripClicked(event) });
    this.scale = make("p", { class: "strip-scale quiet", "aria-hidden": "true" });
    this.peakLine = make("p", { class: "peak", role: "status" });
    this.frames = make("ul", { class: "frames", "aria-label": "Frames with the largest weights", hidden: true });
    this.bars = make("div", { class: "bars" });
    this.attentionSection = make("section", { class: "attention", "aria-labelledby": "attention-title" },
      make("h2", { id: "attention-title" }, "Attention of a word"),
      this.choice, this.strip, this.scale, this.peakLine, this.frames, this.bars);
    return this.attentionSection;
  }

  buildFiles() {
    const { id } = this.video;
    const spoken = this.video.lanes?.speech?.length ? [["speech.srt", "Speech SRT", "What is said, as subtitles"]] : [];
    const links = [...FILES, ...spoken].map(([file, label, about]) =>
      make("li", {}, make("a", { class: "button small", href: api.downloadAddress(id, file), download: true, title: about }, label)));
    return make("section", { class: "take", "aria-labelledby": "files-title" },
      make("h2", { id: "files-title" }, "Downloads"),
      make("ul", { class: "files" }, ...links),
      make("div", { class: "again" }, captionerList(), make("button", {
        class: "button small", type: "button", disabled: this.video.has_file === false,
        onclick: () => document.dispatchEvent(new CustomEvent("describe-again", { detail: [this.video] })),
      }, "Describe again")),
      make("button", { class: "button small quiet-danger", type: "button", onclick: () => this.remove() }, "Delete this video"));
  }

  async remove() {
    if (!await confirmDeletion(this.video)) return;
    announce(`${this.video.name} is deleted`);
    location.hash = "#/";
  }

  // --- the current time -------------------------------------------------------------------------------------------

  moved() {
    if (!this.caption) return;  // the stage is there before the rest
    const seconds = this.player.seconds;
    const segment = this.segmentAt(seconds);
    if (segment !== this.segment) { this.isOriginal = false; this.showSegment(segment); }
    this.lanes.show(seconds);
    this.showTime(seconds);
  }

  /** Index of what is on screen; null between segments. The end of the video belongs to its last segment. */
  segmentAt(seconds) {
    const index = this.video.segments.findIndex((segment) => seconds >= segment.start - 0.001 && seconds < segment.end);
    if (index >= 0) return index;
    const last = this.video.segments.length - 1;
    return last >= 0 && seconds >= this.video.segments[last].end - 0.25 ? last : null;
  }

  showSegment(index) {
    this.segment = index;
    Object.assign(this, { pinned: null, pointed: null });
    const segment = index === null ? null : this.current;
    this.said = segment && !segment.edited ? attentionOfSegment(this.attention, this.video, index, segment.words) : null;
    this.heads = headsOf(this.said);
    this.head = this.heads.find((head) => head.name === this.head?.name) ?? this.heads.find((head) => head.hasLocations)
      ?? this.heads[0] ?? null;
    this.showCaption(segment);
    this.player.setCaption(segment ? spoken(segment) : "");
    this.editor.show(index, index === null ? null : this.video.segments[index], this.isOriginal);
    this.showSure(segment);
    this.showAlternatives(segment);
    this.showChoice();
    this.player.showCurrent(index);
    this.timeline.showCurrent(index);
    this.showAttention();
  }

  showCaption(segment) {
    this.words = [];
    this.guess.hidden = !segment?.unsure;
    this.caption.classList.toggle("guess", Boolean(segment?.unsure));
    if (!segment) {
      this.caption.setAttribute("aria-label", "No caption");
      const text = this.video.segments.length ? "No caption of this segment is confident enough." : "No caption is confident enough.";
      this.caption.replaceChildren(make("span", { class: "silence" }, text));
      return;
    }
    this.caption.setAttribute("aria-label", spoken(segment));
    const parts = [];
    segment.words.forEach((word, index) => {
      const text = index === 0 ? word.word[0].toLocaleUpperCase("en") + word.word.slice(1) : word.word;
      if (index > 0 && !clings(word.word)) parts.push(" ");
      const button = make("button", {
        class: `word${word.probability < 0.25 ? " unlikely" : ""}`, type: "button", "aria-pressed": "false",
        title: segment.edited ? null : `${percent(word.probability)} probability given the words before it`, disabled: this.timeOf(index) === null,
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
    if (!/[.!?]$/.test(segment.caption)) parts.push(segment.unsure ? "?" : ".");
    this.caption.replaceChildren(...parts);
  }

  /** Arrow keys go from word to word. */
  walk(event, index) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.words[(index + step + this.words.length) % this.words.length].focus();
  }

  showSure(segment) {
    if (!segment || segment.edited) { this.sure.replaceChildren(); return; }
    const bar = make("span", { class: "sure-bar", "aria-hidden": "true" });
    bar.style.setProperty("--sure", String(segment.confidence));
    const people = Math.round(segment.confidence * 10);
    this.sure.replaceChildren(
      make("p", { class: "sure-line" }, bar, make("span", {}, "Confidence: "), make("strong", {}, certainty(segment))),
      make("details", {}, make("summary", {}, "What this number means"),
        make("p", { class: "quiet" }, "It is the captioner's own estimate, between 0 and 1. If it was calibrated, "
          + `${confidence(segment.confidence)} says: of ten captions that people say about videos, about ${people} fit what `
          + "others say about the same video no better. It was fitted on few videos and ranks them roughly: "
          + "trust your eyes more. Words in italics were unlikely ones.")));
  }

  showAlternatives(segment) {
    const others = segment?.alternatives ?? [];
    this.alternatives.hidden = others.length === 0;
    this.alternatives.replaceChildren(make("h2", { id: "alternatives-title" }, "It could also be"),
      make("ul", {}, ...others.map((other) => make("li", {}, make("span", {}, asSentence(other.caption)),
        make("span", { class: "quiet", title: "Confidence" }, confidence(other.confidence))))));
  }

  // --- attention ------------------------------------------------------------------------------------------------------

  showChoice() {
    this.choice.hidden = this.heads.length < 2;
    const radios = this.heads.map((head) => make("label", {},
      make("input", {
        type: "radio", name: "head", checked: head === this.head,
        onchange: () => { this.head = head; this.goToPeak(); this.showAttention(); },
      }), make("span", {}, headName(head.name))));
    this.choice.replaceChildren(make("legend", { class: "unseen" }, "Attention head"), ...radios);
  }

  /** A word is chosen: the video stops at the peak of its attention. */
  pin(index) {
    this.pinned = index;
    clearTimeout(this.hovering);
    this.returnTo = undefined;
    if (index !== null) {
      this.player.pause();
      this.goToPeak();
    }
    this.showAttention();
  }

  /** A word is pointed at: where the video stands still, it looks there meanwhile. */
  point(index) {
    if (index === this.pointed) return;
    this.pointed = index;
    clearTimeout(this.hovering);
    this.showAttention();
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

  /** The peak of a word's attention in seconds; without stored attention, that of the description. */
  timeOf(word) {
    if (this.head?.isUniform(word)) return this.uniformTime(word);
    if (this.head) return this.head.times[this.head.ranked(word)[0]];
    return Object.values(this.current.words[word].seconds ?? {})[0] ?? null;
  }

  /** Where a head is uniform over time: the peak of another one, else the key frame, else the middle. */
  uniformTime(word) {
    const other = this.heads.find((head) => head.times.length > 1 && !head.isUniform(word));
    if (other) return other.times[other.ranked(word)[0]];
    const key = (this.said.marks ?? []).find((mark) => mark.kind === "key_frame");
    return key?.seconds ?? this.head.times[Math.floor(this.head.times.length / 2)];
  }

  goToPeak() {
    const step = this.active === null ? null : this.timeOf(this.active);
    if (step === null) return;
    const { start, end } = this.video.segments[this.segment];
    // Windows of motion or sound have their middle at the edge of a segment, or a little beyond.
    this.seek(Math.min(Math.max(step, start), Math.max(start, end - 0.02)));
  }

  showAttention() {
    const { head, active } = this;
    this.words.forEach((button, index) => {
      button.setAttribute("aria-pressed", String(index === this.pinned));
      button.classList.toggle("active", index === active);
    });
    this.attentionSection.hidden = this.words.every((button) => button.disabled);
    for (const part of [this.strip, this.scale, this.frames, this.bars]) part.hidden = !head;
    this.peakLine.replaceChildren(...this.peakText(head, active));
    if (head) {
      this.showStrip(head, active);
      this.showFrames(head);
      this.showBars(active);
    }
    this.showTime(this.player.seconds);
  }

  showStrip(head, word) {
    const { start, end } = this.video.segments[this.segment];
    const span = Math.max(end - start, 0.001);
    const edges = head.edges(start, end);
    const bars = head.times.map((_, step) => {
      const bar = make("span", { class: "strip-bar" });
      place(bar, (edges[step] - start) / span, (edges[step + 1] - edges[step]) / span);
      bar.style.setProperty("--share", String(word === null ? 0 : head.strength(word, step)));
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
      : `Attention over time: ${this.peakLine.textContent}`);
  }

  peakText(head, word) {
    if (word === null) return ["Point at a word, or choose it: the video goes to the peak of its attention."];
    const spoken = make("strong", {}, `“${this.current.words[word].word}”`);
    const when = `: attention peaks at ${clock(this.timeOf(word), true)}`;
    if (!head) return [spoken, `${when}. No more attention is stored.`];
    const places = head.hasLocations ? "" : " This head has no locations within a frame.";
    if (head.isUniform(word)) return [spoken, `: attention is flat over time.${places}`];
    const [first] = head.ranked(word);
    return [spoken, `${when}: ${percent(head.share(word, first))} of it, against `
      + `${percent(1 / head.times.length)} for flat attention.${places}`];
  }

  /** The three frames of a chosen word; none are requested for one that is only pointed at. */
  showFrames(head) {
    this.frames.hidden = this.pinned === null;
    if (this.pinned === null || this.pinned === this.framesOf?.[0] && head === this.framesOf[1]) return;
    this.framesOf = [this.pinned, head];
    const word = this.pinned;
    this.frames.replaceChildren(...head.ranked(word).slice(0, 3).map((step) => {
      const image = make("img", { src: api.frameAddress(this.video.id, head.times[step]), alt: "", decoding: "async" });
      image.addEventListener("error", () => image.replaceWith(make("span", { class: "no-picture" })));
      return make("li", {}, make("button", {
        type: "button", class: "frame-button", onclick: () => this.seek(head.times[step]),
        "aria-label": `Go to ${clock(head.times[step], true)}: ${percent(head.share(word, step))} of the attention`,
      }, image, make("span", { "aria-hidden": "true" }, `${clock(head.times[step], true)} · ${percent(head.share(word, step))}`)));
    }));
  }

  /** Weights of layers or branches for each word. */
  showBars(word) {
    const groups = word === null ? [] : (this.said.bars ?? []).filter(({ weights }) => weights[word]?.some((one) => one > 0));
    this.bars.replaceChildren(...groups.map(({ title, names, weights }) => make("section", { class: "balance" },
      make("h3", {}, title), make("dl", {}, ...names.flatMap((name, index) => {
        const bar = make("span", { class: "balance-bar", "aria-hidden": "true" });
        bar.style.setProperty("--share", String(weights[word][index]));
        return [make("dt", {}, name), make("dd", {}, bar, percent(weights[word][index]))];
      })))));
  }

  showTime(seconds) {
    const { head, active } = this;
    drawOverlay(this.player.canvas, head, active, seconds);
    if (active === null) delete this.player.canvas.dataset.word;
    else this.player.canvas.dataset.word = active;
    if (!head) return;
    const step = head.stepAt(seconds);
    this.words.forEach((button, word) => button.style.setProperty("--share", String(head.strength(word, step))));
    const { start, end } = this.video.segments[this.segment];
    place(this.stripHead, Math.min(Math.max((seconds - start) / Math.max(end - start, 0.001), 0), 1));
  }

  stripClicked(event) {
    const { start, end } = this.video.segments[this.segment];
    this.player.pause();
    this.returnTo = undefined;
    this.seek(start + share(event) * (end - start));
  }
}

function share(event) {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}

/** The stored attention of a segment: by its number, or by its start where the numbers differ. */
function attentionOfSegment(attention, video, index, words) {
  const segments = attention?.segments ?? [];
  const found = segments.length === video.segments.length ? segments[index]
    : segments.find((segment) => Math.abs(segment.start - video.segments[index].start) < 0.05);
  return found && found.words.length === words.length ? found : null;
}
