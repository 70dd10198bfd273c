"""Asking people: the page hides who is who, runs nothing that a caption says, and its answers come back as a table."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.videos import numbered, write_video
from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.research.study import Judgement, draw_study, preferences, read_judgements
from watchword.research.study_page import SCRIPT, study_page

EVIL = "</script><script>steal()</script><img src=x onerror=steal()> & \u2028 \"quotes\" 'too' <!--"
FIRST = {f"video{number}": f"a man is talking {number}" for number in range(8)} | {"<b>evil</b>": EVIL}
SECOND = {f"video{number}": f"a turtle walks {number}" for number in range(8)} | {"<b>evil</b>": "a dog"}
runner = CliRunner()


class Elements(HTMLParser):
    """Tags with their attributes, and the text of the scripts, as a browser's parser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.lasttag == "script" and data.strip():
            self.scripts[-1] += data


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def page(tmp_path: Path) -> Path:
    first, second = write(tmp_path / "first.json", FIRST), write(tmp_path / "second.json", SECOND)
    words = ["research", "study", "make", str(first), str(second), "--clips", "9", "--show", "none", "--output"]
    done = runner.invoke(app, [*words, str(tmp_path / "study.html")])
    assert done.exit_code == 0, done.output
    return tmp_path / "study.html"


def test_nothing_that_a_caption_says_becomes_part_of_the_page(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "steal()</script>" not in text
    found = Elements(text)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    items = json.loads(found.scripts[0])["items"]
    assert EVIL in [item[side] for item in items for side in ("left", "right")]  # it is shown as it was written
    assert "innerHTML" not in SCRIPT
    assert "eval(" not in SCRIPT


def test_the_policy_lets_this_one_script_run_and_nothing_load(page: Path) -> None:
    found = Elements(page.read_text("utf-8"))
    policy = next(tag["content"] for name, tag in found.tags if tag.get("http-equiv") == "Content-Security-Policy")
    digest = base64.b64encode(hashlib.sha256(found.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in str(policy)
    assert str(policy).startswith("default-src 'none'")
    assert "unsafe" not in str(policy)
    for _, attributes in found.tags:
        assert "src" not in attributes
        assert "href" not in attributes


def test_the_page_does_not_know_whose_caption_is_where(page: Path) -> None:
    text = page.read_text("utf-8")
    for secret in ("Baseline", "DualAFR", "video3", "first_is", "evil\\u003c"):
        assert secret not in text
    key = json.loads(page.with_suffix(".key.json").read_text())
    assert {row["first_is"] for row in key["items"]} == {"left", "right"}
    assert {row["video"] for row in key["items"]} == set(FIRST)


def test_a_seed_draws_the_same_study_again_and_another_seed_another() -> None:
    again = [draw_study(FIRST, SECOND, 5, False, seed) for seed in (0, 0, 1)]
    assert again[0] == again[1] != again[2]
    with pytest.raises(WatchwordError, match="only 9 videos"):
        draw_study(FIRST, SECOND, 10, False, 0)
    same = {**SECOND, "video0": FIRST["video0"]}
    assert "video0" not in {row["video"] for row in draw_study(FIRST, same, 8, True, 0)[0]["items"]}


def test_videos_and_frames_are_inside_the_page(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", [numbered(index) for index in range(6)])
    said = write(tmp_path / "said.json", {"a": "one"})
    for show, sign in (("videos", "data:video/mp4;base64,"), ("frames", "data:image/jpeg;base64,")):
        words = [
            "research",
            "study",
            "make",
            str(said),
            str(said),
            "--clips",
            "1",
            "--videos",
            str(tmp_path),
            "--show",
            show,
        ]
        done = runner.invoke(app, [*words, "--output", str(tmp_path / f"{show}.html")])
        assert done.exit_code == 0, done.output
        assert sign in (tmp_path / f"{show}.html").read_text()


def test_answers_come_back_as_the_papers_table(page: Path, tmp_path: Path) -> None:
    key = json.loads(page.with_suffix(".key.json").read_text())
    files = []
    for rater in ("one", "two"):  # everybody finds the second more relevant, nobody finds either more coherent
        rows = []
        for item, secret in enumerate(key["items"]):
            other = "right" if secret["first_is"] == "left" else "left"
            rows += [
                {"item": item, "question": "relevance", "choice": other},
                {"item": item, "question": "coherence", "choice": "same"},
            ]
        files.append(write(tmp_path / f"{rater}.json", {"study": key["study"], "rater": rater, "answers": rows}))
    words = ["research", "study", "table", str(page.with_suffix(".key.json")), *map(str, files)]
    found = json.loads(runner.invoke(app, [*words, "--json"]).output)
    assert found["relevance"]["shares"] == {"first": 0, "second": 1, "same": 0}
    assert found["coherence"]["shares"] == {"first": 0, "second": 0, "same": 1}
    assert found["relevance"]["answers"] == 18
    shown = runner.invoke(app, words).output
    assert re.search(r"DualAFR wins.*100\.00%.*0\.00%", shown)
    assert "Not distinguishable" in shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "holds no answers"),
        ({"study": "x", "rater": "r", "answers": []}, "another study"),
        ({"study": "s", "rater": "r", "answers": [{"item": 3, "question": "relevance", "choice": "left"}]}, "damaged"),
        ({"study": "s", "rater": "r", "answers": [{"item": 0, "question": "beauty", "choice": "left"}]}, "damaged"),
        ({"study": "s", "rater": "r", "answers": [{"item": 0, "question": "relevance", "choice": "up"}]}, "damaged"),
        ({"study": "s", "rater": "r", "answers": [{"item": 0, "question": "relevance", "choice": "left"}] * 2}, "dama"),
        ({"study": "s", "rater": "r", "answers": []}, "no answer"),
    ],
)
def test_answers_that_do_not_belong_are_refused(content: object, message: str) -> None:
    key = {"study": "s", "items": [{"video": "a", "first_is": "left"}]}
    with pytest.raises(WatchwordError, match=message):
        read_judgements(key, {"file": content})


def test_one_person_counts_once() -> None:
    key = {"study": "s", "items": [{"video": "a", "first_is": "left"}]}
    content = {"study": "s", "rater": "r", "answers": [{"item": 0, "question": "relevance", "choice": "left"}]}
    assert read_judgements(key, {"file": content}) == [Judgement("a", "relevance", "first")]
    with pytest.raises(WatchwordError, match="one person"):
        read_judgements(key, {"file": content, "copy": content})


def test_shares_are_exact_and_many_answers_about_one_video_do_not_narrow_the_interval() -> None:
    """Two videos of which people agree: 50 answers each are worth two."""
    answers = [Judgement("a", "relevance", "second")] * 50 + [Judgement("b", "relevance", "same")] * 50
    found = preferences(answers)["relevance"]
    assert found.shares == {"first": 0.0, "second": 0.5, "same": 0.5}
    assert (found.intervals["second"].low, found.intervals["second"].high) == (0.0, 1.0)
    assert (found.answers, found.videos) == (100, 2)
    wide = [Judgement(str(number), "relevance", "second" if number % 2 else "first") for number in range(400)]
    lead = preferences(wide)["relevance"].lead
    assert lead.low == pytest.approx(-0.098, abs=0.01)  # 1.96 / sqrt(400)
    assert lead.high == pytest.approx(0.098, abs=0.01)


BROWSER = """
class Element {
  constructor(tag) { this.tag = tag; this.children = []; this.heard = {}; this.textContent = ""; }
  append(child) { this.children.push(child); }
  replaceChildren() { this.children = []; }
  addEventListener(what, answer) { this.heard[what] = answer; }
  all(tag) { return this.children.flatMap((one) => [...(one.tag === tag ? [one] : []), ...one.all(tag)]); }
}
const page = new Element("main");
globalThis.document = {
  getElementById: (id) => id === "page" ? page : { textContent: STUDY },
  createElement: (name) => new Element(name),
};
globalThis.scrollTo = () => {};
URL.createObjectURL = () => "blob:here";
"""
PERSON = """
for (let video = 0; video < 2; video++) {
  const buttons = page.all("input");
  buttons[video === 0 ? 0 : 1].heard.change();      // relevance: A, then B
  buttons[5].heard.change();                       // coherence: no difference
  page.all("button").find((one) => one.textContent === "Next").heard.click();
}
console.log(page.all("textarea")[0].value);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, to click through the page")
def test_a_person_who_clicks_through_saves_what_they_meant() -> None:
    items = [{"left": EVIL, "right": "b", "video": None, "frames": []}] * 2
    questions = [{"name": "relevance", "text": "?"}, {"name": "coherence", "text": "?"}]
    study = {"study": "s", "questions": questions, "items": items}
    data, script = Elements(study_page(study)).scripts
    program = f"const STUDY = {json.dumps(data)};\n{BROWSER}\n(() => {{ {script} }})();\n{PERSON}"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    saved = json.loads(done.stdout)
    assert saved["study"] == "s"
    assert [(row["item"], row["question"], row["choice"]) for row in saved["answers"]] == [
        (0, "relevance", "left"),
        (0, "coherence", "same"),
        (1, "relevance", "right"),
        (1, "coherence", "same"),
    ]
