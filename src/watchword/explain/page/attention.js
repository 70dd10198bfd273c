// Attention as data and as an overlay: for each word the weights of time steps and locations.
// The viewer of `watchword explain` and of the server's page: the only script that draws attention on a picture.

const HOT = 4;         // times the uniform weight: the strongest colour
const UNIFORM = 1.25;  // largest weight / mean weight: below, the weights are flat and nothing stands out

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** The weights of one attention head for each word. */
export class HeadAttention {
  constructor(name, { times, boxes, weights }) {
    Object.assign(this, { name, times, boxes, weights });
    this.overTime = weights.map((steps) => steps.map(sum));                                                 // (T, F)
    this.totals = this.overTime.map(sum);                                                                   // (T,)
    this.strongest = weights.map((steps) => Math.max(...steps.map((locations) => Math.max(...locations))));  // (T,)
  }

  boxesAt(step) { return Array.isArray(this.boxes[0]?.[0]) ? this.boxes[step] : this.boxes; }

  /** Whether a time step has several locations. */
  get hasLocations() { return this.weights[0]?.[0]?.length > 1; }

  /** The cells of a grid do not move and have one size; regions do not. */
  get isGrid() {
    if (Array.isArray(this.boxes[0]?.[0])) return false;
    const [first] = this.boxes;
    return this.boxes.every((box) =>
      Math.abs((box[2] - box[0]) - (first[2] - first[0])) < 0.02 && Math.abs((box[3] - box[1]) - (first[3] - first[1])) < 0.02);
  }

  /** The nearest time step. */
  stepAt(seconds) {
    let best = 0;
    this.times.forEach((time, index) => {
      if (Math.abs(time - seconds) < Math.abs(this.times[best] - seconds)) best = index;
    });
    return best;
  }

  /** (F + 1,) the borders of the time steps: halfway to the next, from the start to the end of a segment. */
  edges(start, end) {
    const between = this.times.slice(1).map((time, index) => (time + this.times[index]) / 2);
    return [start, ...between, end].map((edge) => Math.min(Math.max(edge, start), end));
  }

  /** The time steps of a word, the largest weight first. */
  ranked(word) {
    const shares = this.overTime[word];
    return shares.map((_, index) => index).sort((one, other) => shares[other] - shares[one]);
  }

  /** 0..1: the strength of a time step; uniform attention is a faint quarter everywhere. */
  strength(word, step) { return Math.min(1, this.share(word, step) * this.times.length / HOT); }

  /** The share of a time step in a word's attention. */
  share(word, step) { return this.totals[word] > 0 ? this.overTime[word][step] / this.totals[word] : 0; }

  /** Whether a word's attention is uniform over time. */
  isUniform(word) {
    const steps = this.overTime[word];
    return steps.length > 1 && Math.min(...steps) > 0 && Math.max(...steps) <= UNIFORM * this.totals[word] / steps.length;
  }
}

/** The heads of a segment that can be shown; incomplete ones are left out. */
export function headsOf(segment) {
  return Object.entries(segment?.heads ?? {})
    .filter(([, { times, boxes, weights }]) => times?.length && boxes?.length && weights?.length === segment.words.length
      && weights.every((steps) => steps.length === times.length))
    .map(([name, values]) => new HeadAttention(name, values));
}

/** Draws the attention of a word at a time over the whole canvas, or clears it. */
export function drawOverlay(canvas, head, word, seconds) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  canvas.className = "";
  if (!head || word === null) {
    delete canvas.dataset.time;
    return;
  }
  const step = head.stepAt(seconds);
  canvas.dataset.time = head.times[step];
  canvas.className = paintAttention(pen, width, height, head, word, step);
}

/** Paints on a context and says how: `whole` frames as a border, grid cells as `heat`, `regions` with their edges;
 *  nothing where no location stands out. */
export function paintAttention(pen, width, height, head, word, step) {
  if (!head.hasLocations) {
    pen.strokeStyle = `rgb(255 178 36 / ${head.strength(word, step)})`;
    pen.lineWidth = 12;  // its outer half lies beyond the edge
    pen.strokeRect(0, 0, width, height);
    return "whole";
  }
  const some = head.weights[word][step].filter((weight) => weight > 0);
  if (!some.length || (some.length > 1 && Math.max(...some) <= UNIFORM * sum(some) / some.length)) return "uniform";
  const isGrid = head.isGrid;
  pen.fillStyle = "rgb(8 10 12 / 0.55)";
  pen.fillRect(0, 0, width, height);
  const strongest = head.strongest[word] || 1;
  const locations = head.boxesAt(step)
    .map((box, location) => ({ box, share: head.weights[word][step][location] / strongest }))
    .filter(({ share }) => share >= 0.02)
    .sort((one, other) => one.share - other.share);  // the largest weight on top
  for (const { box, share } of locations) {
    const corner = [box[0] * width, box[1] * height, (box[2] - box[0]) * width, (box[3] - box[1]) * height];
    pen.globalCompositeOperation = "destination-out";  // makes the dark layer transparent
    pen.fillStyle = `rgb(0 0 0 / ${share})`;
    pen.fillRect(...corner);
    pen.globalCompositeOperation = "source-over";
    pen.fillStyle = `rgb(255 178 36 / ${(isGrid ? 0.3 : 0.07) * share})`;
    pen.fillRect(...corner);
  }
  for (const { box, share } of isGrid ? [] : locations) {  // regions overlap: their edges are drawn
    pen.strokeStyle = `rgb(255 190 60 / ${share ** 2})`;
    pen.lineWidth = 1 + 2 * share ** 2;
    pen.strokeRect(box[0] * width + 1, box[1] * height + 1, (box[2] - box[0]) * width - 2, (box[3] - box[1]) * height - 2);
  }
  return isGrid ? "heat" : "regions";
}
