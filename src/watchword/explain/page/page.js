// Draws the evidence that stands in this file: which moment and which part of the picture each word looked at.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("evidence").textContent);
  const find = (selector, within = document) => within.querySelector(selector);
  const make = (name, attributes = {}, text = "") => {
    const svg = ["svg", "rect", "line", "text", "circle", "title", "g"].includes(name);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text; // never as markup: words and names come from strangers
    return element;
  };
  const HOT = 4, EVEN = 1.02; // as in explain/overlay.py and explain/peaks.py
  const narrow = window.matchMedia("(max-width: 62rem)"), extra = find(".extra"), viewer = find(".viewer");
  const stage = find(".stage"), overlay = find(".stage canvas"), picture = find(".stage img");
  const seek = find(".seek"), shown = find(".shown"), play = find(".play"), told = find(".told");
  const kinds = { key_frame: "key frame", first_key_frame: "first key frame", chosen_frame: "frame chosen for this word" };
  const now = { shot: 0, word: 0, head: null, seconds: 0 };
  let video = null, timer = 0, wakes = 0;

  // --- what is known ------------------------------------------------------------------------------------------------
  const shot = () => data.shots[now.shot];
  const head = () => (now.head === null ? null : shot().streams[now.head]);
  const nearest = (times, seconds) =>
    times.reduce((best, time, index) => (Math.abs(time - seconds) < Math.abs(times[best] - seconds) ? index : best), 0);
  const overTime = (one, word) => one.weights[word].map((places) => places.reduce((sum, weight) => sum + weight, 0));
  const strength = (one, word) => {
    const row = overTime(one, word), total = row.reduce((sum, weight) => sum + weight, 0) || 1;
    return row.map((weight) => Math.min(1, (weight * row.length) / total / HOT));
  };
  const boxesAt = (one, moment) => (Array.isArray(one.boxes[0][0]) ? one.boxes[moment] : one.boxes);
  const ofThings = (one) => Array.isArray(one.boxes[0][0]);

  // --- painting: boxes by transparency where places are things, heat where they are cells ---------------------------
  function paint(canvas, one, word, moment) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    paintOn(canvas.getContext("2d"), canvas.width, canvas.height, one, word, moment, ratio);
  }
  function paintOn(pen, width, height, one, word, moment, ratio) {
    if (!one || one.weights[word][moment].length < 2) return;
    const weights = one.weights[word][moment], boxes = boxesAt(one, moment), largest = Math.max(...weights);
    const some = weights.filter((weight) => weight > 0), mean = some.reduce((sum, weight) => sum + weight, 0) / some.length;
    if (!some.length || (some.length > 1 && largest <= EVEN * mean)) return; // nothing is preferred: nothing to paint
    if (ofThings(one)) {
      const order = weights.map((_, place) => place).filter((place) => weights[place] > 0);
      order.sort((a, b) => weights[a] - weights[b]);
      const veil = (clear) => `rgba(255, 255, 255, ${0.8 * (1 - clear)})`;
      pen.fillStyle = veil(0);
      pen.fillRect(0, 0, width, height);
      for (const place of order) {
        const [x0, y0, x1, y1] = boxes[place];
        const area = [x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height];
        pen.clearRect(...area);
        pen.fillStyle = veil(weights[place] / largest);
        pen.fillRect(...area);
      }
      for (const place of order.slice(-3)) {
        const [x0, y0, x1, y1] = boxes[place];
        pen.lineWidth = 2 * ratio;
        pen.strokeStyle = `rgba(230, 110, 20, ${0.25 + (0.75 * weights[place]) / largest})`;
        pen.strokeRect(x0 * width, y0 * height, (x1 - x0) * width, (y1 - y0) * height);
      }
      return;
    }
    const wide = 48, high = Math.max(1, Math.round((48 * height) / width)), heat = new Float32Array(wide * high);
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    weights.forEach((weight, place) => {
      const [x0, y0, x1, y1] = boxes[place];
      const left = Math.round(x0 * wide), right = Math.max(left + 1, Math.round(x1 * wide));
      const top = Math.round(y0 * high), bottom = Math.max(top + 1, Math.round(y1 * high));
      const share = (weight * wide * high) / total / ((right - left) * (bottom - top));
      for (let y = top; y < Math.min(bottom, high); y++)
        for (let x = left; x < Math.min(right, wide); x++) heat[y * wide + x] += share;
    });
    const small = new ImageData(wide, high);
    heat.forEach((value, index) => {
      const hot = Math.min(1, value / HOT), cover = 0.55 * hot, dim = (1 - cover) * 0.55 * (1 - hot);
      const alpha = cover + dim; // colour over black, as one layer
      small.data.set([(255 * cover) / alpha || 0, (220 * (1 - hot) * cover) / alpha || 0, 0, 255 * alpha], 4 * index);
    });
    const buffer = make("canvas", { width: wide, height: high });
    buffer.getContext("2d").putImageData(small, 0, 0);
    pen.imageSmoothingQuality = "high";
    pen.drawImage(buffer, 0, 0, width, height);
  }

  // --- moving through the film --------------------------------------------------------------------------------------
  function show(seconds, from) {
    now.seconds = seconds;
    if (from !== "video" && video && Math.abs(video.currentTime - seconds) > 0.02) video.currentTime = seconds + 0.001;
    if (!video || picture.hidden === false) picture.src = data.frames[nearest(data.seconds, seconds)];
    seek.value = String(seconds);
    seek.setAttribute("aria-valuetext", `${seconds.toFixed(1)} seconds`);
    shown.textContent = `${seconds.toFixed(1)} s`;
    const one = head();
    if (one) paint(overlay, one, now.word, nearest(one.times, seconds));
    else overlay.width = 1;
    light();
    const line = find(".playhead");
    if (line) for (const end of ["x1", "x2"]) line.setAttribute(end, String(across(seconds)));
  }
  function light() { // every word by how much of it comes from this moment
    const one = head();
    document.querySelectorAll(`.shot[data-shot="${now.shot}"] .word`).forEach((button, word) => {
      const glow = one ? strength(one, word)[nearest(one.times, now.seconds)] : 0;
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
    const { start: begin, end } = shot();
    if (now.seconds >= end - 0.05) show(begin);
    play.textContent = "Pause";
    if (video && !video.hidden) { video.play().catch(stop); return; }
    timer = setInterval(() => (now.seconds + 0.2 > end ? stop() : show(now.seconds + 0.2)), 200);
  }

  // --- choosing -----------------------------------------------------------------------------------------------------
  function choose(shotNumber, word, moment = null) {
    stop();
    const other = shotNumber !== now.shot || !find(".timeline svg");
    now.shot = shotNumber;
    now.word = word;
    if (other) {
      const names = Object.keys(shot().streams);
      if (!names.includes(now.head)) now.head = shot().main;
      document.querySelectorAll(".shot").forEach((one, index) => one.classList.toggle("chosen", index === shotNumber));
      seek.min = String(shot().start);
      seek.max = String(shot().end);
      drawHeads();
      settle();
    }
    refresh(moment);
  }
  function settle() { // on a phone the film stays on top and the rest goes to its sentence
    const many = data.shots.length > 1 && narrow.matches;
    const section = document.querySelectorAll(".shot")[now.shot], moves = many && extra.parentElement !== section;
    (many ? section : viewer).append(extra);
    if (moves && extra.dataset.settled) section.scrollIntoView({ block: "start" }); // what stood above it may have gone
    extra.dataset.settled = "yes";
  }
  function refresh(moment = null) {
    document.querySelectorAll(".word").forEach((button) => {
      const chosen = Number(button.dataset.shot) === now.shot && Number(button.dataset.word) === now.word;
      button.setAttribute("aria-pressed", String(chosen));
      button.style.setProperty("--now", "0"); // other shots have another now
    });
    drawTimeline();
    drawFrames();
    drawBars();
    const text = now.head === null ? "This model has no attention to show." : shot().told[now.head][now.word];
    const { word, probability } = shot().words[now.word];
    told.replaceChildren(make("strong", {}, `“${word}”`), ` ${now.head === null ? "" : `(${now.head}) `}${text}. `,
      make("small", {}, `After the words before it, it was ${Math.round(100 * probability)}% likely.`));
    show(moment === null ? (now.head === null ? shot().start : shot().glances[now.head][now.word]) : moment);
  }
  function drawHeads() {
    const names = Object.keys(shot().streams), box = find(".heads");
    box.hidden = names.length < 2;
    box.replaceChildren(make("legend", {}, "What it looked through"));
    for (const name of names) {
      const label = make("label"), radio = make("input", { type: "radio", name: "head", value: name });
      radio.checked = name === now.head;
      radio.addEventListener("change", () => { now.head = name; refresh(); });
      label.append(radio, name);
      box.append(label);
    }
  }

  // --- the timeline: words by moments -------------------------------------------------------------------------------
  const LABEL = 92, STEP = 22;
  let wide = 600;
  const across = (seconds) => {
    const { start: begin, end } = shot();
    return LABEL + ((Math.min(Math.max(seconds, begin), end) - begin) / Math.max(end - begin, 1e-6)) * (wide - LABEL - 4);
  };
  function drawTimeline() {
    const place = find(".timeline"), one = head();
    place.hidden = !one;
    if (!one) return;
    wide = Math.max(place.clientWidth, 240);
    const { words, marks, start: begin, end } = shot(), high = words.length * STEP + 26;
    const svg = make("svg", { viewBox: `0 0 ${wide} ${high}`, height: high, "aria-hidden": "true" });
    const times = one.times;
    const edges = [begin, ...times.slice(1).map((time, index) => (time + times[index]) / 2), end];
    words.forEach(({ word }, index) => {
      const top = index * STEP;
      const row = make("rect", { class: `row${index === now.word ? " chosen" : ""}`, x: 0, y: top, width: wide, height: STEP - 2, rx: 4 });
      row.addEventListener("click", (event) => {
        const x = ((event.clientX - svg.getBoundingClientRect().left) / svg.getBoundingClientRect().width) * wide;
        const part = (x - LABEL) / (wide - LABEL - 4);
        choose(now.shot, index, part < 0 ? null : begin + Math.min(part, 1) * (end - begin));
      });
      svg.append(row, make("text", { x: 6, y: top + 15, "pointer-events": "none" }, word.length > 11 ? `${word.slice(0, 10)}…` : word));
      strength(one, index).forEach((value, moment) => {
        const left = across(edges[moment]), right = across(edges[moment + 1]);
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
    place.replaceChildren(make("figcaption", {}, "When each word looked; click to go there"), svg, legend);
  }

  // --- the frames that the word looked at most ----------------------------------------------------------------------
  function drawFrames() {
    const box = find(".frames"), one = head();
    box.replaceChildren();
    find(".frames-figure").hidden = !one || one.times.length < 2;
    if (!one) return;
    const row = overTime(one, now.word), total = row.reduce((sum, weight) => sum + weight, 0) || 1;
    const order = row.map((_, moment) => moment).sort((a, b) => row[b] - row[a]).slice(0, 5).sort((a, b) => a - b);
    for (const moment of order) {
      if (!(row[moment] > 0)) continue;
      const seconds = one.times[moment], share = Math.round((100 * row[moment]) / total);
      const button = make("button", { type: "button", "aria-label": `Go to ${seconds.toFixed(1)} seconds, ${share}% of the attention of ${shot().words[now.word].word}` });
      const [width, height] = data.size, canvas = make("canvas", { width: 304, height: Math.round((304 * height) / width), "aria-hidden": "true" });
      const image = new Image(), word = now.word;
      image.onload = () => {
        const pen = canvas.getContext("2d"), layer = make("canvas", { width: canvas.width, height: canvas.height });
        paintOn(layer.getContext("2d"), canvas.width, canvas.height, one, word, moment, 2);
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
    for (const { title, names, weights } of shot().bars) {
      const figure = make("figure"), list = make("div", { class: "bars" });
      names.forEach((name, index) => {
        const weight = weights[now.word][index], bar = make("div"), fill = make("i");
        fill.style.width = `${100 * weight}%`;
        bar.append(fill);
        list.append(make("span", {}, name), bar, make("b", {}, `${Math.round(100 * weight)}%`));
      });
      figure.append(make("figcaption", {}, `Balance for “${shot().words[now.word].word}”: ${title}`), list);
      place.append(figure);
    }
  }

  // --- the film, where this browser can play it; else its frames ----------------------------------------------------
  function openFilm() {
    const kept = document.getElementById("film");
    const source = kept ? "embedded" : data.link;
    if (!source) return;
    const element = make("video", { playsinline: "", preload: "auto", "aria-label": "The film" });
    element.muted = true;
    element.hidden = true;
    element.addEventListener("loadeddata", () => { video = element; element.hidden = false; picture.hidden = true; find(".sound").hidden = !data.sound; show(now.seconds); });
    element.addEventListener("error", () => { video = null; element.remove(); picture.hidden = false; });
    element.addEventListener("timeupdate", () => { if (element.paused) return; if (element.currentTime >= shot().end) stop(); });
    element.addEventListener("play", () => { cancelAnimationFrame(wakes); const tick = () => { if (element.paused) return; show(Math.min(element.currentTime, shot().end), "video"); wakes = requestAnimationFrame(tick); }; tick(); });
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
    const [shotNumber, word] = [Number(button.dataset.shot), Number(button.dataset.word)];
    button.addEventListener("click", () => choose(shotNumber, word));
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
  openFilm();
  if (data.shots.length) {
    const content = shot().words.findIndex(({ word }) => word.length > 3); // not "a"
    choose(0, Math.max(content, 0));
  }
})();
