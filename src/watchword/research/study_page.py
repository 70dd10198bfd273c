"""The page on which people compare two captions of a video: one file, no network, nothing in it but what is shown.

What comes from outside (captions, videos) is data in a JSON block, never markup: `<` is written as an escape there, and
the script puts it into the page as text. The page's policy lets only this one script and this one style run, and
nothing load: a caption that looks like a script stays a caption.
"""

import base64
import hashlib
import json
from typing import Any

STYLE = """
body { font: 17px/1.45 system-ui, sans-serif; color: #28282c; background: #faf9f6; max-width: 52rem; margin: 1rem auto;
       padding: 0 1rem; }
video, .frames { width: 100%; max-height: 22rem; background: #000; }
.frames { display: flex; overflow-x: auto; background: none; gap: 4px; }
.frames img { height: 8rem; }
.caption { border-left: 4px solid #e66e14; padding: .3rem .8rem; margin: .7rem 0; background: #fff; font-size: 1.15em;
            overflow-wrap: anywhere; }
.caption b { margin-right: .6em; }
fieldset { border: 1px solid #ccc; border-radius: 6px; margin: .7rem 0; }
label { display: inline-block; padding: .3rem 1.4rem .3rem 0; cursor: pointer; }
button { font: inherit; padding: .4rem 1rem; margin: .4rem .4rem .4rem 0; }
progress { width: 100%; }
textarea { width: 100%; height: 6rem; }
"""

SCRIPT = """
"use strict";
const study = JSON.parse(document.getElementById("study").textContent);
const stored = "watchword-study-" + study.study;
const choices = [["left", "caption A"], ["right", "caption B"], ["same", "no difference"]];
const page = document.getElementById("page");
let given = {};      // item/question -> choice
let rater = Array.from(crypto.getRandomValues(new Uint8Array(8)), (part) => part.toString(36)).join("");
let place = 0;

try {                // a reload goes on where it was; some browsers keep nothing for local files
  const kept = JSON.parse(localStorage.getItem(stored));
  if (kept) { given = kept.given; rater = kept.rater; place = kept.place; }
} catch (error) { }

function keep() {
  try { localStorage.setItem(stored, JSON.stringify({ given, rater, place })); } catch (error) { }
}

function make(name, text, parent) {
  const element = document.createElement(name);
  if (text) element.textContent = text;
  parent.append(element);
  return element;
}

function show() {
  page.replaceChildren();
  const bar = make("progress", "", page);
  bar.max = study.items.length;
  bar.value = place;
  if (place >= study.items.length) { finish(); return; }
  const item = study.items[place];
  make("p", "Video " + (place + 1) + " of " + study.items.length, page);
  if (item.video) {
    const video = make("video", "", page);
    video.controls = video.loop = video.muted = video.autoplay = true;
    video.src = item.video;
  }
  if (item.frames.length) {
    const strip = make("div", "", page);
    strip.className = "frames";
    for (const frame of item.frames) make("img", "", strip).src = frame;
  }
  for (const [side, letter] of [["left", "A"], ["right", "B"]]) {
    const caption = make("p", "", page);
    caption.className = "caption";
    make("b", letter, caption);
    make("span", item[side], caption);
  }
  for (const question of study.questions) {
    const group = make("fieldset", "", page);
    make("legend", question.text, group);
    for (const [choice, text] of choices) {
      const label = make("label", "", group);
      const button = make("input", "", label);
      button.type = "radio";
      button.name = question.name;
      button.checked = given[place + "/" + question.name] === choice;
      button.addEventListener("change", () => { given[place + "/" + question.name] = choice; keep(); });
      make("span", " " + text, label);
    }
  }
  go("Back", -1, place === 0);
  go("Next", 1, false);
}

function go(text, step, never) {
  const button = make("button", text, page);
  button.disabled = never;
  button.addEventListener("click", () => { place += step; keep(); show(); scrollTo(0, 0); });
}

function answers() {
  const rows = [];
  for (let item = 0; item < study.items.length; item++)
    for (const question of study.questions) {
      const choice = given[item + "/" + question.name];
      if (choice) rows.push({ item, question: question.name, choice });
    }
  return JSON.stringify({ study: study.study, rater, answers: rows });
}

function finish() {
  const open = study.items.length * study.questions.length - JSON.parse(answers()).answers.length;
  make("p", open ? open + " questions are still open; you may go back." : "All is answered. Thank you!", page);
  const link = make("a", "", page);
  link.href = URL.createObjectURL(new Blob([answers()], { type: "application/json" }));
  link.download = "answers-" + rater + ".json";
  make("button", "Save the answers", link);
  make("p", "Send the saved file back. If it cannot be saved, copy this text instead:", page);
  const text = make("textarea", "", page);
  text.readOnly = true;
  text.value = answers();
  go("Back", -1, false);
}

show();
"""


def study_page(study: dict[str, Any], title: str = "Which caption is better?") -> str:
    """`study`: its name, questions (name, text), items (left, right, video, frames), as the script reads them."""
    policy = (
        f"default-src 'none'; script-src '{_digest(SCRIPT)}'; style-src '{_digest(STYLE)}'; img-src data:; "
        "media-src data:; base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<main id="page"></main>
<noscript>This page needs JavaScript; it is all in this file and loads nothing.</noscript>
<script type="application/json" id="study">{_as_data(study)}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _as_data(study: dict[str, Any]) -> str:
    """JSON that cannot end the block it stands in, whatever its texts say: ASCII, without < > and &."""
    text = json.dumps(study)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
