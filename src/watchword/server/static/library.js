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

function card(film, remove) {
  const sentence = film.sentence ? asSentence(film.sentence) : "Nothing was sure enough to be said.";
  const facts = [film.name];
  if (film.shots > 1) facts.push(counted(film.shots, "moment"));
  if (film.added) facts.push(day(film.added));
  return make("li", { class: "card", "data-film": film.id, "data-values": JSON.stringify(film) },
    make("a", { href: `#/film/${film.id}` },
      make("span", { class: "picture" }, thumbnail(film.id), duration(film.seconds)),
      make("span", { class: "card-sentence" }, sentence),
      make("span", { class: "card-facts quiet" }, facts.join(" · "))),
    make("button", {
      class: "bin", type: "button", "aria-label": `Delete ${film.name}`, title: "Delete", onclick: () => remove(film),
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
      const found = await api.films(Math.min(200, Math.max(PAGE, this.shown)), 0);
      this.show(found.films);
      this.shown = found.films.length;
      this.count(found.total);
      if (fresh !== null) byId("cards").querySelector(`[data-film="${fresh}"]`)?.classList.add("fresh");
    } catch (problem) {
      trouble.tell(problem);
    }
  }

  /** Cards that are there already stay as they are: somebody may be about to press one. */
  show(films) {
    let next = byId("cards").firstElementChild;
    const there = new Map([...byId("cards").children].map((one) => [one.dataset.values, one]));
    for (const film of films) {
      const one = there.get(JSON.stringify(film)) ?? this.card(film);
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
      const found = await api.films(PAGE, this.shown);
      const cards = found.films.map((film) => this.card(film));
      byId("cards").append(...cards);
      this.shown += cards.length;
      this.count(found.total);
      cards[0]?.querySelector("a").focus();
    } catch (problem) {
      trouble.tell(problem);
    }
  }

  card(film) { return card(film, (one) => this.remove(one)); }

  count(total) {
    byId("library-count").textContent = total ? counted(total, "film") : "";
    byId("library-empty").hidden = total > 0;
    byId("library-more").hidden = this.shown >= total;
  }

  async remove(film) {
    if (!await confirmDeletion(film)) return;
    await this.refresh();
    (byId("cards").querySelector("a") ?? byId("files")).focus();
  }
}

/** Asks, and deletes; true if it is gone. Every question has a dialog of its own: the news that one is closed comes later,
 * and must not be taken for the answer to the next. */
export async function confirmDeletion(film) {
  const dialog = byId("confirm").content.firstElementChild.cloneNode(true);
  dialog.querySelector(".what").textContent =
    `${film.name}, what was said about it and its evidence are removed from the library. This cannot be undone.`;
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  if (dialog.returnValue !== "delete") return false;
  try {
    await api.removeFilm(film.id);
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

  async search(query, meaning) {
    Object.assign(this, { query, meaning, shown: 0 });
    await this.look(0);
  }

  async look(offset) {
    this.abort?.abort();
    this.abort = new AbortController();
    const wanted = { limit: 20, offset, meaning: this.meaning, signal: this.abort.signal };
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
    byId("found-count").textContent = found.total ? counted(found.total, "moment") : "";
    byId("found-more").hidden = this.shown >= found.total || hits.length === 0;
    const empty = byId("found-empty");
    empty.hidden = found.hits.length > 0 || offset > 0;
    empty.textContent = `Nothing was said that fits “${this.query}”. Try fewer words, or the beginning of one.`;
    if (offset) hits[0]?.querySelector("a").focus();
  }
}

function hitOf(hit) {
  const pieces = hit.pieces.map(([text, isMatch]) => (isMatch ? make("mark", {}, text) : text));
  const span = `${clock(hit.start)} – ${clock(hit.end)}`;
  return make("li", { class: "hit" },
    make("a", { href: `#/film/${hit.film}?at=${hit.start}` },
      make("span", { class: "picture" }, hitPicture(hit)),
      make("span", { class: "hit-text" },
        make("span", { class: "hit-sentence" }, ...pieces),
        make("span", { class: "quiet" }, `${hit.name} · ${span} · sure\u00a0${confidence(hit.confidence)}`))));
}

/** The moment itself; of a film that lies nowhere any more, what the library has kept. */
function hitPicture(hit) {
  const image = make("img", {
    src: api.frameAddress(hit.film, (hit.start + hit.end) / 2), alt: "", loading: "lazy", decoding: "async",
  });
  image.addEventListener("error", () => image.replaceWith(thumbnail(hit.film)), { once: true });
  return image;
}
