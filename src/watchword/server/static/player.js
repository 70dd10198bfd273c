// A video player: the browser's, or single frames from the server where the browser cannot play the file.
// The controls stand below the picture: attention is drawn on it.

import * as api from "./api.js";
import { icon, make, place } from "./dom.js";
import { keep, recall } from "./settings.js";
import { clock, spoken, spokenClock } from "./wording.js";

const STILLS = "This browser cannot play the format of the video. It shows single frames from the server.";
const MISSING = "The file of the video is missing or cannot be read. Its description is kept.";
const KEY_STEPS = 100;  // presses of an arrow key from one end of a video to the other, at most

export class Player {
  /** `moved` is called when another frame is shown. */
  constructor(item, moved) {
    Object.assign(this, { item, moved, kind: "video", shownSeconds: 0 });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.stage = make("div", { class: "stage" });
    this.words = make("p", { class: "stage-words", "aria-hidden": "true", hidden: true });  // readers have the caption beside it
    this.note = make("p", { class: "quiet stage-note", hidden: true });
    this.element = make("section", { class: "theatre", "aria-label": "Video" }, this.stage, this.buildControls(), this.note);
    this.shape(16 / 9);
    this.showWords(recall("words", "on") === "on");
    this.showVideo();
    if (item.has_file === false) this.showFrames();
    this.watcher = new ResizeObserver(() => this.changed());
    this.watcher.observe(this.stage);
  }

  get seconds() { return this.kind === "video" ? this.wanted ?? this.video.currentTime : this.shownSeconds; }
  get isPlaying() { return this.kind === "video" && !this.video.paused && !this.video.ended; }

  /** The stage has the shape of the video, so the overlay needs no margins. */
  shape(ratio) { this.element.style.setProperty("--ratio", String(ratio)); }

  // --- controls ------------------------------------------------------------------------------------------------------

  buildControls() {
    const { seconds, segments, chapters = [] } = this.item;
    this.playButton = make("button", { class: "round play", type: "button", "aria-label": "Play", onclick: () => this.toggle() },
      icon("play"), icon("pause"));
    this.muteButton = make("button", {
      class: "round mute", type: "button", "aria-label": "Sound", "aria-pressed": "true",
      onclick: () => { this.video.muted = !this.video.muted; },
    }, icon("sound"), icon("silence"));
    this.wideButton = make("button", {
      class: "round wide", type: "button", "aria-label": "Full screen", onclick: () => this.toggleWide(),
    }, icon("wide"));
    this.wordsButton = make("button", {
      class: "round words", type: "button", "aria-label": "Captions over the video",
      onclick: () => this.showWords(this.wordsButton.getAttribute("aria-pressed") !== "true"),
    }, icon("words"));
    this.clock = make("span", { class: "clock", "aria-hidden": "true" });
    // Segments as bands under the slider; the list of segments has the same as text.
    this.bands = segments.map((segment) => {
      const begins = chapters.length > 1 && chapters.slice(1).some((chapter) => chapter.start === segment.start);
      const band = make("span", { class: `segment${begins ? " begins" : ""}`, title: `${clock(segment.start)} ${spoken(segment)}` });
      place(band, segment.start / (seconds || 1), (segment.end - segment.start) / (seconds || 1));
      band.style.setProperty("--sure", String(segment.confidence));
      return band;
    });
    this.slider = make("input", {
      type: "range", min: "0", max: String(seconds || 1), step: "any", "aria-label": "Time in the video",
      oninput: () => this.seek(Number(this.slider.value)), onkeydown: (event) => this.step(event),
    });
    const band = make("div", { class: "timeline" }, make("div", { class: "segments", "aria-hidden": "true" }, ...this.bands), this.slider);
    return make("div", { class: "controls" },
      this.playButton, band, this.clock, this.wordsButton, this.muteButton, this.wideButton);
  }

  /** Captions over the picture: while it plays, and in full screen. */
  showWords(isOn) {
    keep("words", isOn ? "on" : "off");
    this.wordsButton.setAttribute("aria-pressed", String(isOn));
    this.element.classList.toggle("with-words", isOn);
  }

  /** Captions were edited: tracks and titles are read again. */
  retell() {
    this.bands.forEach((band, index) => {
      const segment = this.item.segments[index];
      band.title = `${clock(segment.start)} ${spoken(segment)}`;
    });
    for (const track of this.video.querySelectorAll("track")) track.src = `${track.src.split("?")[0]}?read=${Date.now()}`;
  }

  setCaption(text) {
    this.words.textContent = text;
    this.words.hidden = !text;
  }

  step(event) {
    const direction = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    this.seek(this.seconds + direction * Math.max(0.2, this.item.seconds / KEY_STEPS));
  }

  showCurrent(index) {
    this.bands.forEach((band, other) => band.classList.toggle("current", other === index));
  }

  /** Another time or state: updates the controls, then the listener. */
  changed() {
    const { seconds } = this;
    this.slider.value = String(seconds);
    this.slider.setAttribute("aria-valuetext", `${spokenClock(seconds)} of ${spokenClock(this.item.seconds)}`);
    this.clock.textContent = `${clock(Math.floor(seconds))} / ${clock(this.item.seconds)}`;
    this.playButton.classList.toggle("is-playing", this.isPlaying);
    this.playButton.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play");
    this.element.classList.toggle("is-playing", this.isPlaying);
    this.muteButton.setAttribute("aria-pressed", String(!this.video.muted));
    this.moved();
  }

  toggle() {
    if (this.kind !== "video") return;
    if (this.isPlaying) this.video.pause();
    else this.video.play().catch(() => {});  // errors are handled by the error event
  }

  toggleWide() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.element.requestFullscreen?.().catch(() => {});
  }

  // --- the video ------------------------------------------------------------------------------------------------------

  showVideo() {
    const track = make("track", {
      kind: "descriptions", srclang: "en", label: "Descriptions", src: api.downloadAddress(this.item.id, "descriptions.vtt", false),
    });
    const chapters = make("track", {
      kind: "chapters", srclang: "en", label: "Chapters", src: api.downloadAddress(this.item.id, "chapters.vtt", false),
    });
    this.video = make("video", {
      playsinline: true, preload: "metadata", src: api.fileAddress(this.item.id),
      poster: this.poster(), "aria-label": this.item.name, onclick: () => this.toggle(),
    }, track, chapters);
    for (const one of [track, chapters]) one.track.mode = "hidden";  // loaded, and offered to whatever reads them
    if (this.item.lanes?.speech?.length) this.addSubtitles();
    this.video.addEventListener("loadedmetadata", () => {
      if (!this.video.videoWidth) { this.showFrames(); return; }  // only sound could be read
      this.shape(this.video.videoWidth / this.video.videoHeight);
      if (this.wanted !== undefined) this.video.currentTime = this.wanted;
    });
    this.video.addEventListener("seeked", () => { this.wanted = undefined; this.changed(); });
    this.video.addEventListener("play", () => this.tick());
    this.video.addEventListener("error", () => this.showFrames());
    for (const event of ["loadedmetadata", "timeupdate", "pause", "ended", "volumechange"]) {
      this.video.addEventListener(event, () => this.changed());
    }
    this.stage.replaceChildren(this.video, this.canvas, this.words);
  }

  /** The frame of the first caption, which stands beside it. */
  poster() {
    const [first] = this.item.segments;
    return first ? api.frameAddress(this.item.id, first.key_seconds) : api.thumbnailAddress(this.item.id);
  }

  addSubtitles() {
    this.subtitles = make("track", {
      kind: "subtitles", srclang: this.item.language?.code ?? "en", label: "Speech",
      src: api.downloadAddress(this.item.id, "speech.vtt", false),
    });
    this.video.append(this.subtitles);
    this.subtitles.track.mode = "showing";
  }

  showSubtitles(isOn) {
    if (this.subtitles) this.subtitles.track.mode = isOn ? "showing" : "hidden";
  }

  /** timeupdate comes four times a second: too seldom for an overlay. */
  tick() {
    this.changed();
    if (this.isPlaying) requestAnimationFrame(() => this.tick());
  }

  showFrames() {
    if (this.kind !== "video") return;
    this.shownSeconds = this.wanted ?? 0;
    this.kind = "frames";
    this.image = make("img", { class: "frame", alt: "" });
    this.image.addEventListener("load", () => {
      this.shape(this.image.naturalWidth / this.image.naturalHeight);
      this.loaded();
    });
    this.image.addEventListener("error", () => { this.say(MISSING); this.loaded(); });
    this.stage.replaceChildren(this.image, this.canvas, this.words);
    this.video.removeAttribute("src");
    for (const button of [this.playButton, this.muteButton]) button.hidden = true;
    this.say(STILLS);
    this.seek(this.shownSeconds);
  }

  say(line) {
    this.note.hidden = false;
    this.note.textContent = line;
  }

  seek(seconds) {
    if (this.kind === "closed") return;
    const time = Math.min(Math.max(0, seconds), Math.max(0, (this.item.seconds || Infinity) - 0.01));
    if (this.kind === "video") {
      this.wanted = time;
      if (this.video.readyState >= HTMLMediaElement.HAVE_METADATA) this.video.currentTime = time;
    } else {
      this.shownSeconds = time;
      this.load();
    }
    this.changed();
  }

  /** Requests one frame at a time; if the slider moved meanwhile, the latest is next. */
  load() {
    if (this.isLoading) { this.isBehind = true; return; }
    this.isLoading = true;
    this.isBehind = false;
    this.image.src = api.frameAddress(this.item.id, this.shownSeconds);
    this.image.alt = `The video at ${clock(this.shownSeconds)}`;
  }

  loaded() {
    this.isLoading = false;
    if (this.isBehind) this.load();
    else this.changed();
  }

  pause() {
    if (this.kind === "video") this.video.pause();
  }

  close() {
    this.moved = () => {};
    this.pause();
    this.watcher.disconnect();
    this.kind = "closed";
    this.video.removeAttribute("src");  // closes the connection
    this.video.load();
  }
}
