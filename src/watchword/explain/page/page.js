// The page of `watchword explain`: the attention of each word over time and over the picture. Follows attention.js.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("explanation").textContent);
  const find = (selector, within = document) => within.querySelector(selector);
  const make = (name, attributes = {}, text = "") => {
    const svg = ["svg", "rect", "line", "text", "circle", "title", "g"].includes(name);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text; // never as markup
    return element;
  };
  const narrow = window.matchMedia("(max-width: 62rem)"), extra = find(".extra"), viewer = find(".viewer");
  const stage = find(".stage"), overlay = find(".stage canvas"), picture = find(".stage img");
  const seek = find(".seek"), shown = find(".shown"), play = find(".play"), peakText = find(".peak-text");
  const kinds = { key_frame: "key frame", first_key_frame: "first key frame", chosen_frame: "frame chosen for this word" };
  const now = { segment: 0, word: 0, head: null, seconds: 0 };
  let video = null, timer = 0, wakes = 0;

  // --- data ---------------------------------------------------------------------------------------------------------
  const heads = data.segments.map((one) => Object.fromEntries(headsOf(one).map((head) => [head.name, head])));
  const segment = () => data.segments[now.segment];
  const head = () => (now.head === null ? null : heads[now.segment][now.head]);
  const nearest = (times, seconds) =>
    times.reduce((best, time, index) => (Math.abs(time - seconds) < Math.abs(times[best] - seconds) ? index : best), 0);

  // --- the current time ---------------------------------------------------------------------------------------------
  function show(seconds, from) {
    now.seconds = seconds;
    if (from !== "video" && video && Math.abs(video.currentTime - seconds) > 0.02) video.currentTime = seconds + 0.001;
    if (!video || picture.hidden === false) picture.src = data.frames[nearest(data.seconds, seconds)];
    seek.value = String(seconds);
    seek.setAttribute("aria-valuetext", `${seconds.toFixed(1)} seconds`);
    shown.textContent = `${seconds.toFixed(1)} s`;
    drawOverlay(overlay, head(), now.word, seconds);
    highlight();
    const line = find(".playhead");
    if (line) for (const end of ["x1", "x2"]) line.setAttribute(end, String(across(seconds)));
  }
  function highlight() { // every word by the strength of this time step
    const one = head();
    document.querySelectorAll(`.segment[data-segment="${now.segment}"] .word`).forEach((button, word) => {
      const glow = one ? one.strength(word, one.stepAt(now.seconds)) : 0;
      button.style.setProperty("--now", glow.toFixed(3));
    });
  }
  function stop() {
    if (video) video.pause();
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  function start() {
    const { start: begin, end } = segment();
    if (now.seconds >= end - 0.05) show(begin);
    play.textContent = "Pause";
    if (video && !video.hidden) { video.play().catch(stop); return; }
    timer = setInterval(() => (now.seconds + 0.2 > end ? stop() : show(now.seconds + 0.2)), 200);
  }

  // --- choosing -----------------------------------------------------------------------------------------------------
  function choose(number, word, time = null) {
    stop();
    const other = number !== now.segment || !find(".timeline svg");
    now.segment = number;
    now.word = word;
    if (other) {
      const names = Object.keys(heads[now.segment]);
      if (!names.includes(now.head)) now.head = segment().main;
      document.querySelectorAll(".segment").forEach((one, index) => one.classList.toggle("chosen", index === number));
      seek.min = String(segment().start);
      seek.max = String(segment().end);
      drawHeads();
      settle();
    }
    refresh(time);
  }
  function settle() { // on a phone the video stays on top and the rest moves to its caption
    const many = data.segments.length > 1 && narrow.matches;
    const section = document.querySelectorAll(".segment")[now.segment], moves = many && extra.parentElement !== section;
    (many ? section : viewer).append(extra);
    if (moves && extra.dataset.settled) section.scrollIntoView({ block: "start" }); // the content above it may have moved
    extra.dataset.settled = "yes";
  }
  function refresh(time = null) {
    document.querySelectorAll(".word").forEach((button) => {
      const chosen = Number(button.dataset.segment) === now.segment && Number(button.dataset.word) === now.word;
      button.setAttribute("aria-pressed", String(chosen));
      button.style.setProperty("--now", "0"); // other segments have other times
    });
    drawTimeline();
    drawFrames();
    drawBars();
    const text = now.head === null ? "This model has no attention." : segment().texts[now.head][now.word];
    const { word, probability } = segment().words[now.word];
    peakText.replaceChildren(make("strong", {}, `“${word}”`), ` ${now.head === null ? "" : `(${now.head}) `}${text}. `,
      make("small", {}, `Its probability given the words before it was ${Math.round(100 * probability)}%.`));
    show(time === null ? (now.head === null ? segment().start : segment().peaks[now.head][now.word]) : time);
  }
  function drawHeads() {
    const names = Object.keys(heads[now.segment]), box = find(".heads");
    box.hidden = names.length < 2;
    box.replaceChildren(make("legend", {}, "Attention head"));
    for (const name of names) {
      const label = make("label"), radio = make("input", { type: "radio", name: "head", value: name });
      radio.checked = name === now.head;
      radio.addEventListener("change", () => { now.head = name; refresh(); });
      label.append(radio, name);
      box.append(label);
    }
  }

  // --- the timeline: words by time ---------------------------------------------------------------------------------
  const LABEL = 92, STEP = 22;
  let wide = 600;
  const across = (seconds) => {
    const { start: begin, end } = segment();
    return LABEL + ((Math.min(Math.max(seconds, begin), end) - begin) / Math.max(end - begin, 1e-6)) * (wide - LABEL - 4);
  };
  function drawTimeline() {
    const place = find(".timeline"), one = head();
    place.hidden = !one;
    if (!one) return;
    wide = Math.max(place.clientWidth, 240);
    const { words, marks, start: begin, end } = segment(), high = words.length * STEP + 26;
    const svg = make("svg", { viewBox: `0 0 ${wide} ${high}`, height: high, "aria-hidden": "true" });
    const times = one.times;
    const edges = one.edges(begin, end);
    words.forEach(({ word }, index) => {
      const top = index * STEP;
      const row = make("rect", { class: `row${index === now.word ? " chosen" : ""}`, x: 0, y: top, width: wide, height: STEP - 2, rx: 4 });
      row.addEventListener("click", (event) => {
        const x = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * wide;
        const part = (x - LABEL) / (wide - LABEL - 4);
        choose(now.segment, index, part < 0 ? null : begin + Math.min(part, 1) * (end - begin));
      });
      svg.append(row, make("text", { x: 6, y: top + 15, "pointer-events": "none" }, word.length > 11 ? `${word.slice(0, 10)}…` : word));
      times.forEach((_, step) => {
        const value = one.strength(index, step), left = across(edges[step]), right = across(edges[step + 1]);
        const cell = { class: "cell", x: left, y: top + 2, width: Math.max(0.5, right - left - 1), height: STEP - 6, rx: 2 };
        if (value > 0.01) svg.append(make("rect", { ...cell, "fill-opacity": value.toFixed(3), "pointer-events": "none" }));
      });
    });
    const bottom = words.length * STEP;
    for (const mark of marks) {
      const x = across(mark.seconds);
      svg.append(mark.word === null
        ? make("line", { class: mark.kind, x1: x, x2: x, y1: 0, y2: bottom })
        : make("circle", { class: mark.kind, cx: x, cy: mark.word * STEP + STEP / 2 - 1, r: 5, "pointer-events": "none" }));
    }
    for (let part = 0; part <= 4; part++) {
      const seconds = begin + ((end - begin) * part) / 4;
      const anchor = part === 0 ? "start" : part === 4 ? "end" : "middle";
      svg.append(make("text", { class: "axis", x: across(seconds), y: bottom + 17, "text-anchor": anchor }, `${seconds.toFixed(1)} s`));
    }
    svg.append(make("line", { class: "playhead", x1: 0, x2: 0, y1: 0, y2: bottom, "pointer-events": "none" }));
    const legend = make("p", { class: "legend" });
    for (const kind of new Set(marks.map((mark) => mark.kind)))
      legend.append(make("span", { class: kind }, `${marks.find((mark) => mark.kind === kind).word === null ? "│" : "○"} ${kinds[kind]}`));
    place.replaceChildren(make("figcaption", {}, "Attention of each word over time; click to go there"), svg, legend);
  }

  // --- the frames with the largest weights --------------------------------------------------------------------------
  function drawFrames() {
    const box = find(".frames"), one = head();
    box.replaceChildren();
    find(".frames-figure").hidden = !one || one.times.length < 2;
    if (!one) return;
    for (const step of one.ranked(now.word).slice(0, 5).sort((a, b) => a - b)) {
      if (!(one.overTime[now.word][step] > 0)) continue;
      const seconds = one.times[step], share = Math.round(100 * one.share(now.word, step));
      const button = make("button", { type: "button", "aria-label": `Go to ${seconds.toFixed(1)} seconds, ${share}% of the attention of ${segment().words[now.word].word}` });
      const [width, height] = data.size, canvas = make("canvas", { width: 304, height: Math.round((304 * height) / width), "aria-hidden": "true" });
      const image = new Image(), word = now.word;
      image.onload = () => {
        const pen = canvas.getContext("2d"), layer = make("canvas", { width: canvas.width, height: canvas.height });
        paintAttention(layer.getContext("2d"), canvas.width, canvas.height, one, word, step);
        pen.drawImage(image, 0, 0, canvas.width, canvas.height);
        pen.drawImage(layer, 0, 0);
      };
      image.src = data.frames[nearest(data.seconds, seconds)];
      button.append(canvas, make("span", { "aria-hidden": "true" }, `${seconds.toFixed(1)} s · ${share}%`));
      button.addEventListener("click", () => { stop(); show(seconds); });
      box.append(button);
    }
  }
  function drawBars() {
    const place = find(".all-bars");
    place.replaceChildren();
    for (const { title, names, weights } of segment().bars) {
      const figure = make("figure"), list = make("div", { class: "bars" });
      names.forEach((name, index) => {
        const weight = weights[now.word][index], bar = make("div"), fill = make("i");
        fill.style.width = `${100 * weight}%`;
        bar.append(fill);
        list.append(make("span", {}, name), bar, make("b", {}, `${Math.round(100 * weight)}%`));
      });
      figure.append(make("figcaption", {}, `Weights for “${segment().words[now.word].word}”: ${title}`), list);
      place.append(figure);
    }
  }

  // --- the video, where this browser can play it; else its frames ---------------------------------------------------
  function openVideo() {
    const kept = document.getElementById("video");
    const source = kept ? "embedded" : data.link;
    if (!source) return;
    const element = make("video", { playsinline: "", preload: "auto", "aria-label": "The video" });
    element.muted = true;
    element.hidden = true;
    element.addEventListener("loadeddata", () => { video = element; element.hidden = false; picture.hidden = true; find(".sound").hidden = !data.sound; show(now.seconds); });
    element.addEventListener("error", () => { video = null; element.remove(); picture.hidden = false; });
    element.addEventListener("timeupdate", () => { if (element.paused) return; if (element.currentTime >= segment().end) stop(); });
    element.addEventListener("play", () => { cancelAnimationFrame(wakes); const tick = () => { if (element.paused) return; show(Math.min(element.currentTime, segment().end), "video"); wakes = requestAnimationFrame(tick); }; tick(); });
    element.addEventListener("ended", stop);
    if (kept) {
      const bytes = Uint8Array.from(atob(kept.textContent.trim()), (letter) => letter.charCodeAt(0));
      element.src = URL.createObjectURL(new Blob([bytes], { type: kept.dataset.kind }));
    } else element.src = source;
    stage.insertBefore(element, overlay);
    find(".sound input").addEventListener("change", (event) => { element.muted = !event.target.checked; });
  }

  document.documentElement.classList.remove("no-script");
  find(".viewer").hidden = false;
  document.querySelectorAll(".word").forEach((button) => {
    button.disabled = false;
    const [number, word] = [Number(button.dataset.segment), Number(button.dataset.word)];
    button.addEventListener("click", () => choose(number, word));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const all = [...document.querySelectorAll(".word")], next = step && all[all.indexOf(button) + step];
      if (next) { event.preventDefault(); next.focus(); next.click(); }
    });
  });
  play.addEventListener("click", () => (timer || (video && !video.paused) ? stop() : start()));
  seek.addEventListener("input", () => { stop(); show(Number(seek.value)); });
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { drawTimeline(); show(now.seconds); }, 100); });
  narrow.addEventListener("change", () => { settle(); drawTimeline(); });
  openVideo();
  if (data.segments.length) {
    const content = segment().words.findIndex(({ word }) => word.length > 3); // not "a"
    choose(0, Math.max(content, 0));
  }
})();
