// What was described so far, and what is found in it.

import * as api from "./api.js";
import { byId, icon, make } from "./dom.js";
import * as trouble from "./trouble.js";
import { asSentence, clock, confidence, counted, day, spokenClock } from "./wording.js";

const PAGE = 24;

/** A picture that may not be there. */
export function thumbnail(id) {
  const image = make("img", { src: api.thumbnailAddress(id), alt: "", loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(make("span", { class: "no-picture" })));
  return image;
}

function duration(seconds) {
  return make("time", { class: "duration", datetime: `PT${Math.round(seconds)}S`, "aria-label": spokenClock(seconds) },
    clock(seconds));
}

function card(video, remove) {
  const caption = video.caption ? asSentence(video.caption) : "No caption is confident enough.";
  const facts = [video.name];
  if (video.segments > 1) facts.push(counted(video.segments, "segment"));
  if (video.added) facts.push(day(video.added));
  return make("li", { class: "card", "data-video": video.id, "data-values": JSON.stringify(video) },
    make("a", { href: `#/video/${video.id}` },
      make("span", { class: "picture" }, thumbnail(video.id), duration(video.seconds)),
      make("span", { class: "card-caption" }, caption),
      make("span", { class: "card-facts quiet" }, facts.join(" · "))),
    make("button", {
      class: "bin", type: "button", "aria-label": `Delete ${video.name}`, title: "Delete", onclick: () => remove(video),
    }, icon("bin")));
}

export class LibraryView {
  constructor() {
    this.shown = 0;
    byId("library-more").addEventListener("click", () => this.more());
    document.addEventListener("server-back", () => this.refresh());
  }

  /** As many as were shown, from the start: the new ones stand first. */
  async refresh(fresh = null) {
    try {
      const found = await api.videos(Math.min(200, Math.max(PAGE, this.shown)), 0);
      this.show(found.videos);
      this.shown = found.videos.length;
      this.count(found.total);
      if (fresh !== null) byId("cards").querySelector(`[data-video="${fresh}"]`)?.classList.add("fresh");
    } catch (problem) {
      trouble.tell(problem);
    }
  }

  /** Cards that are there already stay as they are: somebody may be about to press one. */
  show(videos) {
    let next = byId("cards").firstElementChild;
    const there = new Map([...byId("cards").children].map((one) => [one.dataset.values, one]));
    for (const video of videos) {
      const one = there.get(JSON.stringify(video)) ?? this.card(video);
      if (one === next) next = next.nextElementSibling;
      else byId("cards").insertBefore(one, next);
    }
    while (next) {
      const gone = next;
      next = next.nextElementSibling;
      gone.remove();
    }
  }

  async more() {
    try {
      const found = await api.videos(PAGE, this.shown);
      const cards = found.videos.map((video) => this.card(video));
      byId("cards").append(...cards);
      this.shown += cards.length;
      this.count(found.total);
      cards[0]?.querySelector("a").focus();
    } catch (problem) {
      trouble.tell(problem);
    }
  }

  card(video) { return card(video, (one) => this.remove(one)); }

  count(total) {
    byId("library-count").textContent = total ? counted(total, "video") : "";
    byId("library-empty").hidden = total > 0;
    byId("library-more").hidden = this.shown >= total;
  }

  async remove(video) {
    if (!await confirmDeletion(video)) return;
    await this.refresh();
    (byId("cards").querySelector("a") ?? byId("files")).focus();
  }
}

/** Asks, and deletes; true if it is gone. Every question has a dialog of its own: the news that one is closed comes later,
 * and must not be taken for the answer to the next. */
export async function confirmDeletion(video) {
  const dialog = byId("confirm").content.firstElementChild.cloneNode(true);
  dialog.querySelector(".what").textContent =
    `${video.name}, what was said about it and its attention are removed from the library. This cannot be undone.`;
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  if (dialog.returnValue !== "delete") return false;
  try {
    await api.removeVideo(video.id);
  } catch (problem) {
    if (problem.status !== 404) { trouble.tell(problem); return false; }
  }
  return true;
}

export class SearchView {
  constructor() {
    this.query = "";
    this.shown = 0;
    byId("found-more").addEventListener("click", () => this.look(this.shown));
  }

  async search(query, semantic) {
    Object.assign(this, { query, semantic, shown: 0 });
    await this.look(0);
  }

  async look(offset) {
    this.abort?.abort();
    this.abort = new AbortController();
    const wanted = { limit: 20, offset, semantic: this.semantic, signal: this.abort.signal };
    let found;
    try {
      found = await api.search(this.query, wanted);
    } catch (problem) {
      trouble.tell(problem);
      return;
    }
    const hits = found.hits.map(hitOf);
    if (offset) byId("hits").append(...hits);
    else byId("hits").replaceChildren(...hits);
    this.shown = offset + hits.length;
    byId("found-count").textContent = found.total ? counted(found.total, "segment") : "";
    byId("found-more").hidden = this.shown >= found.total || hits.length === 0;
    const empty = byId("found-empty");
    empty.hidden = found.hits.length > 0 || offset > 0;
    empty.textContent = `Nothing was said that fits “${this.query}”. Try fewer words, or the beginning of one.`;
    if (offset) hits[0]?.querySelector("a").focus();
  }
}

const VERBS = { speech: "said", text: "written", sounds: "heard" };

function hitOf(hit) {
  const pieces = hit.pieces.map(([text, isMatch]) => (isMatch ? make("mark", {}, text) : text));
  const span = `${clock(hit.start)} – ${clock(hit.end)}`;
  return make("li", { class: "hit" },
    make("a", { href: `#/video/${hit.video}?at=${hit.start}` },
      make("span", { class: "picture" }, hitPicture(hit)),
      make("span", { class: "hit-text" },
        make("span", { class: "hit-caption" },
          VERBS[hit.lane] ? make("span", { class: "quiet" }, `${VERBS[hit.lane]}: `) : null, ...pieces),
        make("span", { class: "quiet" }, `${hit.name} · ${span} · confidence\u00a0${confidence(hit.confidence)}`))));
}

/** Links to the time in the video. */
function hitPicture(hit) {
  const image = make("img", {
    src: api.frameAddress(hit.video, (hit.start + hit.end) / 2), alt: "", loading: "lazy", decoding: "async",
  });
  image.addEventListener("error", () => image.replaceWith(thumbnail(hit.video)), { once: true });
  return image;
}
