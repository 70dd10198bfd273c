// What was described so far, and what is found in it.

import * as api from "./api.js";
import { byId, icon, make } from "./dom.js";
import * as trouble from "./trouble.js";
import { Selection } from "./selection.js";
import { certainty, clock, counted, day, spoken, spokenClock } from "./wording.js";

const PAGE = 24;
const EMPTY = "Nothing yet. Videos that you drop above are captioned and stored here.";

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

function card(video, box, remove) {
  const caption = video.caption ? spoken(video) : "No caption is confident enough.";
  const facts = [];
  if (video.segments > 1) facts.push(counted(video.segments, "segment"));
  if (video.added) facts.push(day(video.added));
  return make("li", { class: "card", "data-video": video.id, "data-values": JSON.stringify(video) },
    box, make("a", { href: `#/video/${video.id}` },
      make("span", { class: "picture" }, thumbnail(video.id), duration(video.seconds)),
      make("span", { class: `card-caption${video.unsure ? " guess" : ""}` }, caption),
      make("span", { class: "card-facts quiet" }, video.caption ? certaintyTag(video) : null, " ", make("span", { class: "card-name" }, video.name),
        ...facts.flatMap((fact) => [" ", make("span", { class: "fact" }, fact)]))),
    make("button", {
      class: "bin", type: "button", "aria-label": `Delete ${video.name}`, title: "Delete", onclick: () => remove(video),
    }, icon("bin")));
}

/** "edited", "unsure, 0.21" or "confidence 0.64". */
function certaintyTag(said) {
  const isPlain = !said.edited && !said.unsure;
  return make("span", { class: `tag${said.unsure ? " unsure" : ""}`, title: "Confidence" }, isPlain ? "confidence " : null, certainty(said));
}

export class LibraryView {
  constructor() {
    this.shown = 0;
    this.selection = new Selection(() => this.refresh(), {
      again: (videos) => document.dispatchEvent(new CustomEvent("describe-again", { detail: videos })),
      remove: (videos) => this.removeAll(videos),
    });
    byId("library-more").addEventListener("click", () => this.more());
    document.addEventListener("server-back", () => this.refresh());
  }

  /** As many as were shown, from the start: the new ones stand first. */
  async refresh(fresh = null) {
    try {
      const asked = this.asked = {};
      const found = await api.videos(Math.min(200, Math.max(PAGE, this.shown)), 0, this.selection.query);
      if (asked !== this.asked) return;  // another order was chosen meanwhile
      this.show(found.videos);
      this.shown = found.videos.length;
      this.selection.retain(found.videos, !this.selection.isFiltered && found.total === this.shown);
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
      const found = await api.videos(PAGE, this.shown, this.selection.query);
      const cards = found.videos.map((video) => this.card(video));
      byId("cards").append(...cards);
      this.shown += cards.length;
      this.count(found.total);
      cards[0]?.querySelector("a").focus();
    } catch (problem) {
      trouble.tell(problem);
    }
  }

  card(video) { return card(video, this.selection.box(video), (one) => this.remove(one)); }

  count(total) {
    const { isFiltered } = this.selection;
    byId("library-count").textContent = total ? counted(total, "video") : "";
    byId("library-tools").hidden = total === 0 && !isFiltered;
    byId("library-empty").hidden = total > 0;
    byId("library-empty").textContent = isFiltered ? "No video fits." : EMPTY;
    byId("library-more").hidden = this.shown >= total;
  }

  remove(video) { return this.removeAll([video]); }

  async removeAll(videos) {
    if (!await confirmDeletion(...videos)) return;
    for (const video of videos) this.selection.chosen.delete(video.id);
    await this.refresh();
    (byId("cards").querySelector("a") ?? byId("files")).focus();
  }
}

/** Asks, and deletes; true if it is gone. Every question has a dialog of its own: the news that one is closed comes later,
 * and must not be taken for the answer to the next. */
export async function confirmDeletion(...videos) {
  const dialog = byId("confirm").content.firstElementChild.cloneNode(true);
  if (videos.length > 1) dialog.querySelector(".question").textContent = `Delete ${counted(videos.length, "video")}?`;
  dialog.querySelector(".what").textContent = `${videos.map((video) => video.name).join(", ")}: `
    + `${videos.length > 1 ? "their" : "its"} captions and attention are removed from the library. This cannot be undone.`;
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  if (dialog.returnValue !== "delete") return false;
  for (const video of videos) {
    try {
      await api.removeVideo(video.id);
    } catch (problem) {
      if (problem.status !== 404) { trouble.tell(problem); return false; }
    }
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
    byId("found-count").textContent = found.total ? counted(found.total, "result") : "";
    byId("found-more").hidden = this.shown >= found.total || hits.length === 0;
    const empty = byId("found-empty");
    empty.hidden = found.hits.length > 0 || offset > 0;
    empty.textContent = `Nothing fits “${this.query}”. Try fewer words, or the beginning of one.`;
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
        make("span", { class: `hit-caption${hit.unsure ? " guess" : ""}` },
          VERBS[hit.lane] ? make("span", { class: "quiet" }, `${VERBS[hit.lane]}: `) : null, ...pieces, hit.unsure ? "?" : null),
        make("span", { class: "quiet hit-facts" }, certaintyTag(hit), " ", make("span", {}, hit.name), " ",
          make("span", { class: "fact" }, span)))));
}

/** The frame that shows what is found; the thumbnail of the video where there is none. */
function hitPicture(hit) {
  const image = make("img", {
    src: api.smallFrameAddress(hit.video, hit.key_seconds), alt: "", loading: "lazy", decoding: "async",
  });
  image.addEventListener("error", () => image.replaceWith(thumbnail(hit.video)), { once: true });
  return image;
}
