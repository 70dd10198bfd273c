// A film on its stage: played by the browser or, where that cannot read it, frame by frame from the server.
// The controls stand below the picture, not on it: the picture is where evidence is drawn.

import * as api from "./api.js";
import { icon, make, place } from "./dom.js";
import { asSentence, clock, spokenClock } from "./wording.js";

const STILLS = "This browser cannot play the film's format. You see single frames, made by the server.";
const MISSING = "The film itself is not there any more, or cannot be read. What was said about it is kept.";
const KEY_STEPS = 100;  // presses of an arrow key from one end of a film to the other, at most

export class Player {
  /** `moved` is called whenever another moment is on screen. */
  constructor(film, moved) {
    Object.assign(this, { film, moved, kind: "video", shownSeconds: 0 });
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.stage = make("div", { class: "stage" });
    this.note = make("p", { class: "quiet stage-note", hidden: true });
    this.element = make("section", { class: "theatre", "aria-label": "Film" }, this.stage, this.buildControls(), this.note);
    this.shape(16 / 9);
    this.showVideo();
    if (film.has_video === false) this.showFrames();
    this.watcher = new ResizeObserver(() => this.changed());
    this.watcher.observe(this.stage);
  }

  get seconds() { return this.kind === "video" ? this.wanted ?? this.video.currentTime : this.shownSeconds; }
  get isPlaying() { return this.kind === "video" && !this.video.paused && !this.video.ended; }

  /** The stage has the film's own shape, so what is drawn over it needs no margins. */
  shape(ratio) { this.element.style.setProperty("--ratio", String(ratio)); }

  // --- controls ------------------------------------------------------------------------------------------------------

  buildControls() {
    const { seconds, shots } = this.film;
    this.playButton = make("button", { class: "round play", type: "button", "aria-label": "Play", onclick: () => this.toggle() },
      icon("play"), icon("pause"));
    this.muteButton = make("button", {
      class: "round mute", type: "button", "aria-label": "Sound", "aria-pressed": "true",
      onclick: () => { this.video.muted = !this.video.muted; },
    }, icon("sound"), icon("silence"));
    this.wideButton = make("button", {
      class: "round wide", type: "button", "aria-label": "Full screen", onclick: () => this.toggleWide(),
    }, icon("wide"));
    this.clock = make("span", { class: "clock", "aria-hidden": "true" });
    // What is said when, as a band under the slider; the list of moments says the same in words.
    this.segments = shots.map((shot) => {
      const segment = make("span", { class: "segment", title: `${clock(shot.start)} ${asSentence(shot.sentence)}` });
      place(segment, shot.start / (seconds || 1), (shot.end - shot.start) / (seconds || 1));
      segment.style.setProperty("--sure", String(shot.confidence));
      return segment;
    });
    this.slider = make("input", {
      type: "range", min: "0", max: String(seconds || 1), step: "any", "aria-label": "Moment of the film",
      oninput: () => this.seek(Number(this.slider.value)), onkeydown: (event) => this.step(event),
    });
    const band = make("div", { class: "timeline" }, make("div", { class: "segments", "aria-hidden": "true" }, ...this.segments), this.slider);
    return make("div", { class: "controls" }, this.playButton, band, this.clock, this.muteButton, this.wideButton);
  }

  step(event) {
    const direction = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!direction) return;
    event.preventDefault();
    this.seek(this.seconds + direction * Math.max(0.2, this.film.seconds / KEY_STEPS));
  }

  showCurrent(index) {
    this.segments.forEach((segment, other) => segment.classList.toggle("current", other === index));
  }

  /** Another moment, or another state: the controls first, then whoever looks on. */
  changed() {
    const { seconds } = this;
    this.slider.value = String(seconds);
    this.slider.setAttribute("aria-valuetext", `${spokenClock(seconds)} of ${spokenClock(this.film.seconds)}`);
    this.clock.textContent = `${clock(Math.floor(seconds))} / ${clock(this.film.seconds)}`;
    this.playButton.classList.toggle("is-playing", this.isPlaying);
    this.playButton.setAttribute("aria-label", this.isPlaying ? "Pause" : "Play");
    this.muteButton.setAttribute("aria-pressed", String(!this.video.muted));
    this.moved();
  }

  toggle() {
    if (this.kind !== "video") return;
    if (this.isPlaying) this.video.pause();
    else this.video.play().catch(() => {});  // what cannot be played has told so by itself
  }

  toggleWide() {
    if (document.fullscreenElement) document.exitFullscreen();
    else this.element.requestFullscreen?.().catch(() => {});
  }

  // --- the film -------------------------------------------------------------------------------------------------------

  showVideo() {
    const track = make("track", {
      kind: "descriptions", srclang: "en", label: "What is seen", src: api.fileAddress(this.film.id, "descriptions.vtt", false),
    });
    this.video = make("video", {
      playsinline: true, preload: "metadata", src: api.videoAddress(this.film.id),
      poster: api.thumbnailAddress(this.film.id), "aria-label": this.film.name, onclick: () => this.toggle(),
    }, track);
    track.track.mode = "hidden";  // loaded, and offered to whatever reads descriptions aloud
    this.video.addEventListener("loadedmetadata", () => {
      if (!this.video.videoWidth) { this.showFrames(); return; }  // sound alone could be read
      this.shape(this.video.videoWidth / this.video.videoHeight);
      if (this.wanted !== undefined) this.video.currentTime = this.wanted;
    });
    this.video.addEventListener("seeked", () => { this.wanted = undefined; this.changed(); });
    this.video.addEventListener("play", () => this.tick());
    this.video.addEventListener("error", () => this.showFrames());
    for (const event of ["loadedmetadata", "timeupdate", "pause", "ended", "volumechange"]) {
      this.video.addEventListener(event, () => this.changed());
    }
    this.stage.replaceChildren(this.video, this.canvas);
  }

  /** timeupdate comes four times a second: too seldom for what follows a film. */
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
    this.stage.replaceChildren(this.image, this.canvas);
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
    const moment = Math.min(Math.max(0, seconds), Math.max(0, (this.film.seconds || Infinity) - 0.01));
    if (this.kind === "video") {
      this.wanted = moment;
      if (this.video.readyState >= HTMLMediaElement.HAVE_METADATA) this.video.currentTime = moment;
    } else {
      this.shownSeconds = moment;
      this.load();
    }
    this.changed();
  }

  /** One frame at a time is asked for; where the slider went on meanwhile, the latest is next. */
  load() {
    if (this.isLoading) { this.isBehind = true; return; }
    this.isLoading = true;
    this.isBehind = false;
    this.image.src = api.frameAddress(this.film.id, this.shownSeconds);
    this.image.alt = `The film at ${clock(this.shownSeconds)}`;
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
    this.video.removeAttribute("src");  // lets go of the connection
    this.video.load();
  }
}
