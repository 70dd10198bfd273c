// Evidence as data, and as light over the picture: for each word when and where the captioner looked.

const HOT = 4;      // times as much as if all moments were looked at alike: as strong as light gets
const EVEN = 1.02;  // the largest weight against the mean: no more, and nothing was preferred

/** One attention of a model over one stream: when x where, for each word. */
export class Head {
  constructor(name, { times, boxes, weights }) {
    Object.assign(this, { name, times, boxes, weights });
    this.overTime = weights.map((moments) => moments.map(sum));                     // (T, F)
    this.totals = this.overTime.map(sum);                                           // (T,)
    this.strongest = weights.map((moments) => Math.max(...moments.map((places) => Math.max(...places))));  // (T,)
  }

  boxesAt(moment) { return Array.isArray(this.boxes[0]?.[0]) ? this.boxes[moment] : this.boxes; }

  /** Whether it looks at parts of the picture, not only at whole moments. */
  get hasPlaces() { return this.weights[0]?.[0]?.length > 1; }

  /** Cells of a grid are places that never move and have one size; regions are not. */
  get isGrid() {
    if (Array.isArray(this.boxes[0]?.[0])) return false;
    const [first] = this.boxes;
    return this.boxes.every((box) =>
      Math.abs((box[2] - box[0]) - (first[2] - first[0])) < 0.02 && Math.abs((box[3] - box[1]) - (first[3] - first[1])) < 0.02);
  }

  /** The moment that is on screen at a second: the nearest one. */
  momentAt(seconds) {
    let best = 0;
    this.times.forEach((time, index) => {
      if (Math.abs(time - seconds) < Math.abs(this.times[best] - seconds)) best = index;
    });
    return best;
  }

  /** (F + 1,) the edges between moments: halfway to the next, from the start to the end of a shot. */
  edges(start, end) {
    const between = this.times.slice(1).map((time, index) => (time + this.times[index]) / 2);
    return [start, ...between, end].map((edge) => Math.min(Math.max(edge, start), end));
  }

  /** Moments of a word, those it looked at most first. */
  ranked(word) {
    const shares = this.overTime[word];
    return shares.map((_, index) => index).sort((one, other) => shares[other] - shares[one]);
  }

  /** 0..1: how much a word looks at a moment. Attention that chooses nothing is a faint quarter everywhere. */
  light(word, moment) { return Math.min(1, this.share(word, moment) * this.times.length / HOT); }

  /** Of a word's attention, what a moment has. */
  share(word, moment) { return this.totals[word] > 0 ? this.overTime[word][moment] / this.totals[word] : 0; }

  /** Whether a word preferred no moment. */
  isEven(word) {
    const moments = this.overTime[word];
    return moments.length > 1 && Math.min(...moments) > 0
      && Math.max(...moments) <= EVEN * this.totals[word] / moments.length;
  }
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The heads of a shot that can be shown; what is not whole is left out rather than drawn wrongly. */
export function headsOf(shot) {
  return Object.entries(shot?.streams ?? {})
    .filter(([, { times, boxes, weights }]) => times?.length && boxes?.length && weights?.length === shot.words.length
      && weights.every((moments) => moments.length === times.length))
    .map(([name, values]) => new Head(name, values));
}

/** Shots of evidence beside those of the film: the same in number, or those that begin together. */
export function evidenceOfShot(evidence, film, index) {
  const shots = evidence?.shots ?? [];
  const found = shots.length === film.shots.length ? shots[index]
    : shots.find((shot) => Math.abs(shot.start - film.shots[index].start) < 0.05);
  return found && found.words.length === film.shots[index].words.length ? found : null;
}

/** Draws where a word looks at the moment on screen, or nothing. */
export function light(canvas, head, word, seconds) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  canvas.className = "";
  if (!head || word === null) {
    delete canvas.dataset.moment;
    return;
  }
  const moment = head.momentAt(seconds);
  canvas.dataset.moment = head.times[moment];
  if (!head.hasPlaces) {
    canvas.className = "whole";
    ring(pen, width, height, head.light(word, moment));
    return;
  }
  const isGrid = head.isGrid;
  canvas.className = isGrid ? "heat" : "regions";
  pen.fillStyle = "rgb(8 10 12 / 0.55)";
  pen.fillRect(0, 0, width, height);
  const strongest = head.strongest[word] || 1;
  const places = head.boxesAt(moment)
    .map((box, place) => ({ box, share: head.weights[word][moment][place] / strongest }))
    .filter(({ share }) => share >= 0.02)
    .sort((one, other) => one.share - other.share);  // the strongest lies on top
  for (const { box, share } of places) {
    const corner = [box[0] * width, box[1] * height, (box[2] - box[0]) * width, (box[3] - box[1]) * height];
    pen.globalCompositeOperation = "destination-out";  // the darkness is lifted
    pen.fillStyle = `rgb(0 0 0 / ${share})`;
    pen.fillRect(...corner);
    pen.globalCompositeOperation = "source-over";
    pen.fillStyle = `rgb(255 178 36 / ${(isGrid ? 0.3 : 0.07) * share})`;
    pen.fillRect(...corner);
  }
  for (const { box, share } of isGrid ? [] : places) {  // regions lie over each other: they need their edges
    pen.strokeStyle = `rgb(255 190 60 / ${share ** 2})`;
    pen.lineWidth = 1 + 2 * share ** 2;
    pen.strokeRect(box[0] * width + 1, box[1] * height + 1, (box[2] - box[0]) * width - 2, (box[3] - box[1]) * height - 2);
  }
}

/** A captioner that sees whole pictures lights the whole picture: a ring around it. */
function ring(pen, width, height, share) {
  pen.strokeStyle = `rgb(255 178 36 / ${share})`;
  pen.lineWidth = 12;  // its outer half lies beyond the edge
  pen.strokeRect(0, 0, width, height);
}
