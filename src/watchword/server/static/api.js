// Requests to the server. An error for people is a Problem with one line.

export class Problem extends Error {
  constructor(line, { status = 0, retryAfter = 0 } = {}) {
    super(line);
    this.status = status;          // 0: nobody answered
    this.retryAfter = retryAfter;  // seconds, of a full queue
  }
  get isGone() { return this.status === 0; }
  get isFull() { return this.status === 429 || this.status === 503; }
}

const GONE = "The server does not answer.";
const LINES = {
  401: "This page needs its token: open the whole address that watchword serve printed.",
  403: "The server refused: open the page at the address that watchword serve printed.",
  404: "This is not in the library.",
  413: "This file is larger than the server accepts.",
  429: "The queue is full.",
  503: "The server is busy.",
};

/** The line for a refusal: the server's own if it gave one. */
function problemOf(status, text, retryAfter) {
  let line = "";
  try {
    const said = JSON.parse(text).error;
    if (typeof said === "string") line = said;
  } catch { /* not JSON: a proxy's page, say */ }
  return new Problem(line || LINES[status] || `The server answered ${status}.`,
    { status, retryAfter: Number(retryAfter) || 0 });
}

async function ask(path, options = {}) {
  let response;
  let text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(GONE);
  }
  if (!response.ok) throw problemOf(response.status, text, response.headers.get("Retry-After"));
  if (!text) return null;
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem("The server answered something that is not JSON.", { status: response.status });
  }
}

const captionerQuery = (captioner) => (captioner ? `?${query({ captioner })}` : "");
const query = (values) => new URLSearchParams(values).toString();

export const about = () => ask("/api/about");
export const videos = (limit, offset, listing = {}) => ask(`/api/videos?${query({ limit, offset, ...listing })}`);
export const video = (id) => ask(`/api/videos/${id}`);
export const attention = (id) => ask(`/api/videos/${id}/attention`);
export const removeVideo = (id) => ask(`/api/videos/${id}`, { method: "DELETE" });
const captionPath = (id, segment) => `/api/videos/${id}/segments/${segment}/caption`;
export const editCaption = (id, segment, caption) => ask(captionPath(id, segment),
  { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ caption }) });
export const restoreCaption = (id, segment) => ask(captionPath(id, segment), { method: "DELETE" });
/** Gives the job's id. */
export const describeAgain = async (id, captioner) =>
  (await ask(`/api/videos/${id}/describe${captionerQuery(captioner)}`, { method: "POST" })).job;
export const jobs = () => ask("/api/jobs");
export const cancelJob = (id) => ask(`/api/jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
export const search = (q, { limit, offset, semantic, signal }) =>
  ask(`/api/search?${query({ q, limit, offset, semantic })}`, { signal });

export const fileAddress = (id) => `/api/videos/${id}/file`;
export const thumbnailAddress = (id) => `/api/videos/${id}/thumbnail`;
export const smallFrameAddress = (id, seconds) => `${frameAddress(id, seconds)}&small=true`;
export const exportAddress = (format, ids) => `/api/export?${new URLSearchParams([["format", format], ...ids.map((id) => ["video", id])])}`;
export const frameAddress = (id, seconds) => `/api/videos/${id}/frame?${query({ seconds: seconds.toFixed(2) })}`;
export const downloadAddress = (id, name, download = true) => `/api/videos/${id}/${name}${download ? "?download=1" : ""}`;

/** Follows one job: `told` gets its state again and again, `lost` is called where the server stopped talking. */
export function follow(id, told, lost) {
  const source = new EventSource(`/api/jobs/${encodeURIComponent(id)}/events`);
  const stop = () => source.close();
  source.addEventListener("message", (event) => {
    let job;
    try { job = JSON.parse(event.data); } catch { return; }
    told(job);
  });
  source.addEventListener("error", () => { stop(); lost(); });
  return stop;
}

/** Sends a video; `sent` gets the share that is out, 0..1. Gives the job's id. */
export function upload(file, captioner, sent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();  // fetch cannot tell how much of a body is out
    request.open("POST", `/api/videos${captionerQuery(captioner)}`);
    request.setRequestHeader("X-Watchword-Name", percentEncoded(file.name));
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => event.lengthComputable && sent(event.loaded / event.total));
    request.addEventListener("load", () => {
      if (request.status < 200 || request.status > 299) {
        reject(problemOf(request.status, request.responseText, request.getResponseHeader("Retry-After")));
        return;
      }
      try {
        resolve(JSON.parse(request.responseText).job);
      } catch {
        reject(new Problem("The server answered something that is not JSON.", { status: request.status }));
      }
    });
    request.addEventListener("error", () => reject(new Problem(GONE)));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

/** encodeURIComponent throws at halves of a surrogate pair, which file systems allow in names. */
function percentEncoded(name) {
  const whole = name.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, "\uFFFD");
  return encodeURIComponent(whole);
}
