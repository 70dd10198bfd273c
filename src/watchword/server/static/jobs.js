// Videos on their way: sent one after the other, then described one after the other. Each has a row.

import * as api from "./api.js";
import { chosen } from "./captioners.js";
import { announce, byId, make } from "./dom.js";
import * as trouble from "./trouble.js";
import { bytes, clock, counted, spoken } from "./wording.js";

const EVERY = 1500;        // milliseconds between two looks at the list of jobs
const FULL_WAIT = 5;       // seconds until a full queue is asked again, if it does not say
const FINAL = new Set(["done", "failed", "cancelled"]);

/** What became of one video, and how it is shown. */
class Row {
  /** `start(sent, signal)` sends it and gives the job's id; none for one that has a job. */
  constructor(name, { start = null, size = 0, job = null, opens = false, dismissed }) {
    Object.assign(this, { name, start, size, job, opens });
    this.state = start ? "queued" : "waiting";
    this.abort = new AbortController();
    this.line = make("p", { class: "job-line" });
    this.caption = make("p", { class: "job-caption", hidden: true });
    this.bar = make("progress", { max: "1", "aria-label": `Progress of ${name}` });
    this.button = make("button", { class: "button small", type: "button", onclick: () => dismissed(this) }, "Cancel");
    this.button.setAttribute("aria-label", `Cancel ${name}`);
    const text = make("div", { class: "job-text" },
      make("p", { class: "job-name" }, name), this.bar, this.line, this.caption);
    this.element = make("li", { class: "job" }, text, this.button);
  }

  get isOver() { return FINAL.has(this.state); }

  /** A state, its line, and how much is done: null where nobody can tell. */
  show(state, line, share = null) {
    if (state !== this.state && state !== "uploading") announce(`${this.name}: ${line}`);
    this.state = state;
    this.element.dataset.state = state;
    if (this.line.textContent !== line) this.line.textContent = line;
    this.bar.hidden = this.isOver;
    if (share === null) this.bar.removeAttribute("value");
    else this.bar.value = share;
    this.button.textContent = this.isOver ? "Dismiss" : "Cancel";
    this.button.setAttribute("aria-label", `${this.button.textContent} ${this.name}`);
  }

  showJob(job, ahead) {
    this.job = job.id;
    const soFar = job.caption_so_far ?? "";
    this.caption.hidden = !soFar;
    this.caption.textContent = spoken({ caption: soFar, unsure: job.unsure });
    if (job.state === "waiting") {
      this.show("waiting", ahead ? `Waiting: ${counted(ahead, "video")} before it` : "Waiting for its turn", 0);
    } else if (job.state === "working") {
      const known = job.seconds > 0;
      this.show("working", known ? progressWords(job) : "Describing",
        known && job.done_seconds > 0 ? Math.min(1, job.done_seconds / job.seconds) : null);
    } else if (job.state === "failed") {
      this.show("failed", job.error || "It could not be described.");
    } else {
      this.show(job.state, job.state === "done" ? "Described" : "Cancelled");
    }
  }
}

/** How far it is; a short video is read, then captioned all at once. */
function progressWords(job) {
  return job.done_seconds > 0 ? `Describing: ${clock(job.done_seconds)} of ${clock(job.seconds)}` : `Describing ${clock(job.seconds)}`;
}

/** All rows. `finished(job, opens)` is told of each video that is done. */
export class Jobs {
  constructor(finished) {
    this.finished = finished;
    this.rows = [];
    this.limits = {};
    this.isSending = false;
    this.isWatching = false;
    this.stopFollowing = null;
    this.followed = null;
    document.addEventListener("server-back", () => this.find());
  }

  /** Files from a drop, a picker or the clipboard. One alone is opened when it is done. */
  take(files) {
    const captioner = chosen();
    for (const file of files) {
      const start = (sent, signal) => api.upload(file, captioner, sent, signal);
      const row = this.add(new Row(file.name,
        { start, size: file.size, opens: files.length === 1, dismissed: (one) => this.drop(one) }));
      const most = this.limits.bytes;
      if (file.size === 0) row.show("failed", "This file is empty, or it is a folder: choose the videos in it.");
      else if (most && file.size > most) {
        row.show("failed", `This file has ${bytes(file.size)}; the server takes at most ${bytes(most)}.`);
      } else row.show("queued", `${bytes(file.size)}, to be sent`, 0);
    }
    this.send();
  }

  /** Videos of the library that are described once more. */
  again(videos) {
    const captioner = chosen();
    for (const video of videos) {
      const start = () => api.describeAgain(video.id, captioner);
      const row = new Row(video.name, { start, opens: videos.length === 1, dismissed: (one) => this.drop(one) });
      this.add(row).show("queued", "To be described again", 0);
    }
    this.send();
  }

  add(row) {
    this.rows.push(row);
    byId("jobs").append(row.element);
    byId("activity").hidden = false;
    return row;
  }

  remove(row) {
    const hadFocus = row.element.contains(document.activeElement);
    this.rows = this.rows.filter((other) => other !== row);
    row.element.remove();
    byId("activity").hidden = this.rows.length === 0;
    if (hadFocus) byId("files").focus();
  }

  /** The button of a row: stops what is going on, or puts away what is over. */
  async drop(row) {
    if (!row.isOver) {
      row.abort.abort();
      if (row.job !== null) {
        try {
          await api.cancelJob(row.job);
        } catch (problem) {
          if (problem.status !== 404) { trouble.tell(problem); return; }
        }
      }
      announce(`${row.name}: cancelled`);
    }
    this.remove(row);
  }

  async send() {
    if (this.isSending) return;
    this.isSending = true;
    for (;;) {
      const row = this.rows.find((one) => one.state === "queued");
      if (!row) break;
      await this.sendOne(row);
    }
    this.isSending = false;
  }

  async sendOne(row) {
    try {
      const sent = (share) => row.show("uploading",
        share < 1 && row.size ? `Sending: ${bytes(share * row.size)} of ${bytes(row.size)}` : "Sent; the server looks at it",
        share < 1 ? share : null);
      sent(0);
      row.job = await row.start(sent, row.abort.signal);
      row.show("waiting", "Waiting for its turn", 0);
      row.start = null;  // nothing to send again: let go of the file
      this.watch();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      if (problem.isFull) {
        const wait = problem.retryAfter || FULL_WAIT;
        row.show("full", `${problem.message.replace(/[.\s]*$/, "")}: it is sent again by itself in ${counted(wait, "second")}.`, 0);
        await this.pause(row, new Promise((resolve) => setTimeout(resolve, wait * 1000)));
      } else if (problem.isGone) {
        row.show("broken", "Broken off: the server does not answer. It is sent again by itself when it is back.", 0);
        await this.pause(row, trouble.serverGone());
      } else {
        row.show("failed", problem.message);
      }
    }
  }

  /** Until then, or until the row is put away. */
  async pause(row, until) {
    await Promise.race([until, new Promise((resolve) => row.abort.signal.addEventListener("abort", resolve))]);
    if (!row.abort.signal.aborted) row.state = "queued";
  }

  /** Jobs that the server has from before, or from elsewhere. */
  async find() {
    try {
      const found = listed(await api.jobs());
      for (const job of found) {
        if (FINAL.has(job.state) || this.rows.some((row) => row.job === job.id)) continue;
        this.add(new Row(job.name, { job: job.id, dismissed: (one) => this.drop(one) }));
      }
    } catch (problem) {
      trouble.tell(problem);
      return;
    }
    this.watch();
  }

  async watch() {
    if (this.isWatching) return;
    this.isWatching = true;
    while (this.rows.some((row) => row.job !== null && !row.isOver)) {
      try {
        const asked = new Set(this.rows.map((row) => row.job));  // a job that begins meanwhile is not in the answer
        this.tell(listed(await api.jobs()), asked);
      } catch (problem) {
        if (!problem.isGone) { trouble.tell(problem); break; }
        await trouble.serverGone();
        continue;
      }
      // A look at once when the followed job ends: the next one begins then.
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, EVERY);
      });
    }
    this.follow(null);
    this.isWatching = false;
  }

  tell(found, asked) {
    const waiting = found.filter((job) => job.state === "waiting").map((job) => job.id);
    const busy = found.filter((job) => job.state === "working").length;
    for (const row of this.rows.filter((one) => one.job !== null && !one.isOver)) {
      const job = found.find((one) => one.id === row.job);
      if (!job && !asked.has(row.job)) continue;
      if (!job) {
        row.show("failed", "The server does not know this video any more: send it again.");
        continue;
      }
      this.update(row, job, busy + Math.max(0, waiting.indexOf(job.id)));
    }
    this.follow(this.rows.find((row) => row.state === "working")?.job ?? null);
  }

  update(row, job, ahead = 0) {
    row.showJob(job, ahead);
    if (job.state === "done") {
      this.remove(row);
      announce(`${row.name} is described: ${spoken({ caption: job.caption_so_far ?? "", unsure: job.unsure })}`);
      this.finished(job, row.opens);
    } else if (job.state === "cancelled") this.remove(row);
  }

  /** One open connection only, for the video at work: browsers allow six to a server. */
  follow(id) {
    if (id === this.followed) return;
    this.stopFollowing?.();
    this.followed = id;
    this.stopFollowing = id === null ? null : api.follow(id, (job) => {
      const row = this.rows.find((one) => one.job === id);
      if (row && !row.isOver) this.update(row, job);
      if (FINAL.has(job.state)) { this.follow(null); this.wake?.(); }
    }, () => { this.followed = null; this.wake?.(); });
  }
}

/** In the order of coming; the server has the newest first. */
const listed = (answer) => answer.jobs.toReversed();
