// The page: one address for each view, and files from wherever they come.
//   #/                 home: drop, videos at work, the library
//   #/search?q=dog     what was said
//   #/video/3?at=12.5   one video, at a second

import * as api from "./api.js";
import { captionerList, offer } from "./captioners.js";
import { announce, byId, make } from "./dom.js";
import { VideoView } from "./video.js";
import { Jobs } from "./jobs.js";
import { LibraryView, SearchView } from "./library.js";
import * as trouble from "./trouble.js";
import { bytes, spokenClock } from "./wording.js";

const TYPING = 180;  // milliseconds without a key until a search begins
const views = ["home", "found", "video"];
const library = new LibraryView();
const found = new SearchView();
const jobs = new Jobs((job, opens) => {
  library.refresh(job.video);
  if (opens && job.video !== null && isHome()) location.hash = `#/video/${job.video}`;
});
let videoView = null;
let steps = 0;  // views that were asked for: an answer for an earlier one comes too late

const isHome = () => !byId("home").hidden;

function show(view, title) {
  for (const name of views) byId(name).hidden = name !== view;
  document.title = title ? `${title} · Watchword` : "Watchword";
}

async function route() {
  const address = location.hash;
  if (address && !address.startsWith("#/")) return;  // a place on the page, not a view
  const step = ++steps;
  const [path, rest] = address.replace(/^#\/?/, "").split("?");
  const asked = new URLSearchParams(rest);
  const videoId = /^video\/(\d+)$/.exec(path)?.[1];
  if (videoId && videoView && String(videoView.video.id) === videoId) {  // the same video: only another time
    show("video", videoView.video.name);
    if (asked.has("at")) videoView.seek(Number(asked.get("at")) || 0);
    return;
  }
  videoView?.close();
  videoView = null;
  if (path === "search") await openSearch(asked);
  else if (videoId) await openVideo(videoId, asked.has("at") ? Number(asked.get("at")) || 0 : null, step);
  else {
    byId("search").value = "";
    show("home", "");
    await library.refresh();
  }
}

async function openSearch(asked) {
  const query = asked.get("q") ?? "";
  if (document.activeElement !== byId("search")) byId("search").value = query;
  show("found", `Search: ${query}`);
  await found.search(query, byId("semantic").checked);
  announce(byId("found-count").textContent || byId("found-empty").textContent);
}

async function openVideo(id, at, step) {
  try {
    const opened = await VideoView.open(id, at);
    if (step !== steps) { opened.close(); return; }
    videoView = opened;
    show("video", opened.video.name);
    trouble.clear();
    scrollTo(0, 0);
    opened.title.focus({ preventScroll: true });
  } catch (problem) {
    if (step !== steps) return;
    trouble.tell(problem);
    if (!problem.isGone) history.replaceState(null, "", "#/");
    show("home", "");
    await library.refresh();
  }
}

// --- searching -------------------------------------------------------------------------------------------------------

let typing;

function search() {
  clearTimeout(typing);
  const query = byId("search").value.trim();
  const address = query ? `#/search?${new URLSearchParams({ q: query })}` : "#/";
  // One step of history for a search, not one for each key.
  if (location.hash.startsWith("#/search")) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route();
}

byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, TYPING);
});
byId("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  search();
});
byId("semantic").addEventListener("change", () => { if (byId("search").value.trim()) search(); });
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, dialog");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("search").focus();
  }
});

// --- files -----------------------------------------------------------------------------------------------------------

function take(files) {
  const list = [...files];
  if (!list.length) return;
  if (!isHome()) location.hash = "#/";
  trouble.clear();
  jobs.take(list);
}

byId("files").addEventListener("change", (event) => {
  take(event.target.files);
  event.target.value = "";  // the same file can be chosen again
});

const carriesFiles = (event) => [...event.dataTransfer?.types ?? []].includes("Files");
let depth = 0;  // dragenter and dragleave come for every element on the way

addEventListener("dragenter", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth += 1;
  document.body.classList.add("dragging");
});
addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();  // anywhere on the page will do: a video that misses must not replace the page
  event.dataTransfer.dropEffect = "copy";
});
addEventListener("dragleave", (event) => {
  if (!carriesFiles(event)) return;
  depth = Math.max(0, depth - 1);
  if (!depth) document.body.classList.remove("dragging");
});
addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  depth = 0;
  document.body.classList.remove("dragging");
  take(event.dataTransfer.files);
});
addEventListener("paste", (event) => take(event.clipboardData?.files ?? []));

// --- beginning -------------------------------------------------------------------------------------------------------

async function introduce() {
  try {
    const said = await api.about();
    jobs.limits = said.limits ?? {};
    offer(said.captioners ?? []);
    const { bytes: most, seconds } = jobs.limits;
    const limits = [most && bytes(most), seconds && spokenClock(seconds)].filter(Boolean).join(" or ");
    if (limits) byId("limits").textContent = `Up to ${limits} each. It stays on the machine that runs Watchword.`;
    byId("semantic-choice").hidden = !said.semantic_search;
    byId("about").replaceChildren(`Watchword ${said.version}, captioner ${said.captioner}. ${said.hint ?? ""} `,
      make("a", { href: "/api/docs" }, "For programs"));
  } catch (problem) {
    trouble.tell(problem);
  }
}

byId("upload-choice").append(captionerList());
document.addEventListener("describe-again", (event) => {
  if (!isHome()) location.hash = "#/";
  library.selection.clear();
  jobs.again(event.detail);
});
addEventListener("hashchange", route);
document.addEventListener("server-back", introduce);
introduce();
jobs.find();
route();
