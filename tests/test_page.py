"""The page of `watchword serve`, as a person meets it: in Chromium, against the real server and the real captioner."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import SHARED
from tests.videos import numbered, write_video
from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install 'watchword[test]'")
Browser, Page, expect = playwright.Browser, playwright.Page, playwright.expect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium"),
]
ROOT = Path(__file__).parents[1]
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE = 90_000  # milliseconds: two cores, of which others want one
expect.set_options(timeout=PATIENCE)
HOSTILE = "<img src=x onerror=hacked=1>.mp4"


# --- a server, a library, a browser ----------------------------------------------------------------------------------


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rsplit(":", 1)[1])

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path) as answer:
            return json.load(answer)

    def kill(self) -> None:
        """As a power cut would: nobody is told."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(library: Path, *options: str) -> Iterator[Server]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    model = ["--model", "light"]  # whatever weights are at hand
    words = [sys.executable, "-m", "watchword", "serve", "--library", str(library), *model, *options]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found, "the server does not say where it is"
            server = Server(process, found[0])
            wait_until(lambda: server.ask("/api/about"))
            yield server
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)


def wait_until(answer: Callable[[], Any], seconds: float = PATIENCE / 1000) -> Any:
    """Until there is one."""
    end = time.monotonic() + seconds
    while True:
        try:
            if found := answer():
                return found
        except OSError:
            pass
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.2)


def caption(text: str, confidence: float = 0.5) -> Caption:
    return Caption(tuple(Word(word, 0.5) for word in text.split()), confidence)


def explanation_on_a_grid(name: str, segments: list[tuple[float, float, str]]) -> dict[str, Any]:
    """2 x 2 cells: word number w of a segment has its attention at time step w and cell w (mod 4)."""
    cells = [[x / 2, y / 2, x / 2 + 0.5, y / 2 + 0.5] for y in range(2) for x in range(2)]
    told = []
    for start, end, text in segments:
        words = text.split()
        weights = np.full((len(words), 4, 4), 0.01)
        for word in range(len(words)):
            weights[word, word % 4, word % 4] = 0.85
        times = [start + (end - start) * (step + 0.5) / 4 for step in range(4)]
        told.append(
            {
                "start": start,
                "end": end,
                "caption": text,
                "confidence": 0.5,
                "words": [{"word": word, "probability": 0.5} for word in words],
                "heads": {"grid": {"times": times, "boxes": cells, "weights": weights.tolist()}},
                "marks": [{"kind": "key_frame", "word": None, "seconds": times[0]}],
                "bars": [{"title": "layers", "names": ["low", "high"], "weights": [[0.25, 0.75]] * len(words)}],
            }
        )
    return {"version": 2, "video": name, "seconds": segments[-1][1], "captioner": "drawn", "segments": told}


EXPLAINED = [(0.0, 2.0, "a red bird sings"), (2.0, 4.0, "two dogs run along"), (4.0, 6.0, "someone opens a window")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A library with videos that were put there by hand, and a server before it."""
    folder = tmp_path_factory.mktemp("page")
    pictures = [numbered(index) for index in range(150)]
    played = write_video(folder / "played.mp4", pictures)
    stills = write_video(folder / "stills.avi", pictures[:50], codec="mpeg4")  # Chromium has no decoder for it
    library = Library(folder / "library.db")

    def keep(name: str, source: Path | None, segments: list[tuple[float, float, str]], drawn: bool = True) -> None:
        other = caption("it is something else", 0.2)
        said = tuple(Segment(start, end, (caption(text), other)) for start, end, text in segments)
        description = Description(Path(name), segments[-1][1], "drawn", said)
        explanation = explanation_on_a_grid(name, segments) if drawn else None
        library.add(description, name=name, identity=name, source=source, explanation=explanation)

    hostile = shutil.copy(played, folder / "hostile.mp4")
    gone = Path(shutil.copy(played, folder / "gone.mp4"))
    keep("gone.mp4", gone, [(0.0, 6.0, "a video that was moved")], drawn=False)
    gone.unlink()
    keep("stills.avi", stills, [(0.0, 2.0, "bars of light and dark")])
    keep(HOSTILE, hostile, [(0.0, 6.0, "<script>hacked=1</script> <b>bold</b> &amp; plain")])
    keep("attention.mp4", played, EXPLAINED)
    with serving(library.path, "--port", "0") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    with visiting(browser, server) as page:
        yield page


@contextmanager
def visiting(browser: Any, server: Server, **options: Any) -> Iterator[Any]:
    """A new visitor. Whatever a script or the content policy complains about fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, **options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
    page.goto(server.address)
    yield page
    context.close()
    assert [line for line in complaints if "Failed to load" not in line] == []  # the rest is what videos lack


def drop(page: Any, *paths: Path, name: str | None = None) -> None:
    """What a file manager does: the page cannot tell the difference."""
    files = [{"name": name or path.name, "bytes": base64.b64encode(path.read_bytes()).decode()} for path in paths]
    page.evaluate(
        """(files) => {
            const carried = new DataTransfer();
            for (const { name, bytes } of files) {
                carried.items.add(new File([Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0))], name));
            }
            for (const type of ["dragenter", "dragover", "drop"]) {
                document.querySelector("#drop").dispatchEvent(
                    new DragEvent(type, { dataTransfer: carried, bubbles: true, cancelable: true }));
            }
        }""",
        files,
    )


def open_video(page: Any, server: Server, name: str) -> int:
    number = next(video["id"] for video in server.ask("/api/videos")["videos"] if video["name"] == name)
    page.goto(f"{server.address}/#/video/{number}")
    expect(page.locator("h1.video-name")).to_have_text(name)
    return int(number)


def shown_seconds(page: Any) -> float:
    """What the video stands at."""
    return float(page.locator(".timeline input").input_value())


def real_video(folder: Path) -> Path:
    """A clip of people and things; drawn bars where the shared data is not at hand."""
    clip = SHARED / "msrvtt" / "clips" / "video1002.mp4"
    return clip if clip.exists() else write_video(folder / "bars.mp4", [numbered(index) for index in range(50)])


# --- the way of a video -----------------------------------------------------------------------------------------------


def test_a_dropped_video_gets_its_caption_explanation_search_and_files_and_is_there_tomorrow(
    page: Any, server: Server, tmp_path: Path
) -> None:
    video = real_video(tmp_path)
    drop(page, video)
    expect(page.locator(".job-name")).to_have_text(video.name)
    expect(page.get_by_role("progressbar", name=f"Progress of {video.name}")).to_be_visible()
    expect(page.locator(".caption")).to_be_visible()  # one video alone is opened when it is done
    number = int(page.url.rsplit("/", 1)[1])
    told = server.ask(f"/api/videos/{number}")
    (segment,) = told["segments"]
    said = page.locator(".caption").inner_text()
    assert said.rstrip(".?").lower() == segment["caption"]
    expect(page.locator(".sure-line")).to_contain_text(f"{segment['confidence']:.2f}")
    assert page.locator(".alternatives li").count() == len(segment["alternatives"]) > 0
    expect(page.locator(".job")).to_have_count(0)

    words = sorted(range(len(segment["words"])), key=lambda index: segment["words"][index]["seconds"]["appearance"])
    (seen,) = server.ask(f"/api/videos/{number}/attention")["segments"]
    for index in (words[0], words[-1]):  # those that look farthest apart
        page.locator(".word").nth(index).click()
        expect(page.locator(".peak")).to_contain_text(f"“{segment['words'][index]['word']}”")
        head = seen["heads"]["appearance"]
        over_time = np.sum(head["weights"][index], -1)
        if over_time.max() > 1.02 * over_time.mean():  # else it is uniform, and the page goes to the middle
            # weights come with three digits: two time steps may be the largest
            most = [time for time, weight in zip(head["times"], over_time, strict=True) if weight >= over_time.max()]
            assert min(abs(time - segment["words"][index]["seconds"]["appearance"]) for time in most) < 0.01
            wait_until(lambda: min(abs(shown_seconds(page) - time) for time in most) < 0.15, 20)  # noqa: B023
        shown = page.locator(".stage canvas")
        expect(shown).to_have_attribute("data-word", str(index))
        drawn = float(shown.get_attribute("data-time") or "nan")
        assert abs(drawn - shown_seconds(page)) <= told["seconds"] / len(over_time)
    expect(page.locator(".strip-bar")).to_have_count(len(over_time))

    with page.expect_download() as download:
        page.get_by_role("link", name="VTT").click()
    assert download.value.suggested_filename == f"{video.stem}.vtt"
    text = Path(download.value.path()).read_text()
    assert text.startswith("WEBVTT")
    assert said.rstrip(".?") in text

    page.reload()
    expect(page.locator(".caption")).to_have_text(said)
    page.get_by_label("Search the captions, speech and text of your videos").fill(f'"{segment["caption"]}"')
    expect(page.locator(".hit").filter(has_text=video.name)).to_have_count(1)
    page.get_by_role("link", name="Watchword: home").click()
    expect(page.locator(f'.card[data-video="{number}"]')).to_contain_text(said.rstrip(".?"), ignore_case=True)


def test_the_descriptions_are_a_track_of_the_video(page: Any, server: Server) -> None:
    open_video(page, server, "attention.mp4")
    assert page.locator("video track").first.get_attribute("kind") == "descriptions"
    cues = "() => [...document.querySelector('video').textTracks[0].cues ?? []].map((cue) => [cue.startTime, cue.text])"
    told = [[start, f"{text[0].upper()}{text[1:]}."] for start, _, text in EXPLAINED]
    wait_until(lambda: page.evaluate(cues) == told, 20)  # a track's cues arrive one by one


def test_a_word_lights_the_time_and_the_location_of_its_attention(page: Any, server: Server) -> None:
    open_video(page, server, "attention.mp4")
    canvas = page.locator(".stage canvas")
    brightest = """(canvas) => {
        const { width, height } = canvas, pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        const at = (x, y) => pixels[4 * (Math.round(y * height) * width + Math.round(x * width)) + 3];
        const darkness = [[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]].map(([x, y]) => at(x, y));
        return darkness.indexOf(Math.min(...darkness));
    }"""
    for word in (1, 2, 3):
        page.locator(".word").nth(word).click()
        expect(page.locator(".word").nth(word)).to_have_attribute("aria-pressed", "true")
        expect(canvas).to_have_attribute("data-time", str(0.25 + 0.5 * word))
        expect(canvas).to_have_attribute("class", "heat")
        assert canvas.evaluate(brightest) == word
        assert abs(page.evaluate("document.querySelector('video').currentTime") - (0.25 + 0.5 * word)) < 0.1
        heights = "(bars) => bars.map((bar) => Number(bar.style.getPropertyValue('--share')))"
        assert np.argmax(page.locator(".strip-bar").evaluate_all(heights)) == word
    expect(page.locator(".peak")).to_have_text(
        "“sings”: attention peaks at 0:01.8: 88 % of it, against 25 % for flat attention."
    )
    expect(page.locator(".frame-button")).to_have_count(3)
    expect(page.locator(".balance")).to_contain_text("75 %")
    page.keyboard.press("Escape")
    expect(canvas).not_to_have_attribute("data-time", re.compile("."))


def test_a_word_can_be_pointed_at_and_walked_to_with_the_keys(page: Any, server: Server) -> None:
    open_video(page, server, "attention.mp4")
    words, canvas = page.locator(".word"), page.locator(".stage canvas")
    words.nth(2).hover()
    expect(canvas).to_have_attribute("data-time", "1.25")
    page.mouse.move(5, 5)
    wait_until(lambda: shown_seconds(page) == 0, 20)  # back to where the video was
    page.locator(".timeline input").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('word')"):
            break
    page.keyboard.press("ArrowRight")
    expect(words.nth(1)).to_be_focused()
    expect(canvas).to_have_attribute("data-time", "0.75")
    page.keyboard.press("Enter")
    expect(words.nth(1)).to_have_attribute("aria-pressed", "true")


def test_the_caption_follows_the_video(page: Any, server: Server) -> None:
    open_video(page, server, "attention.mp4")
    expect(page.locator(".caption")).to_have_text("A red bird sings.")
    page.get_by_role("button", name="Two dogs run along").click()
    expect(page.locator(".caption")).to_have_text("Two dogs run along.")
    expect(page.locator(".segment-button[aria-current]")).to_contain_text("Two dogs")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".caption")).to_have_text("Someone opens a window.")
    page.get_by_role("button", name="Pause").click()
    slider = page.get_by_role("slider", name="Time in the video")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".caption")).to_have_text("A red bird sings.")
    page.keyboard.press("ArrowRight")
    assert 0.1 < shown_seconds(page) < 0.5


def test_a_search_marks_its_words_and_jumps_to_the_second(page: Any) -> None:
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("dog running alo")  # stems, and the beginning of the last word
    hit = page.locator(".hit")
    expect(hit.locator("mark")).to_have_text(["dogs", "run", "along"])
    hit.get_by_role("link").click()
    expect(page.locator(".caption")).to_have_text("Two dogs run along.")
    assert shown_seconds(page) == 2.0
    page.go_back()
    expect(page.locator(".hit")).to_have_count(1)
    page.get_by_role("searchbox").fill("zebra")
    expect(page.locator("#found-empty")).to_contain_text("Nothing fits “zebra”")


def test_a_video_the_browser_cannot_play_is_shown_frame_by_frame(page: Any, server: Server) -> None:
    open_video(page, server, "stills.avi")
    expect(page.get_by_text("This browser cannot play the format of the video")).to_be_visible()
    width = "() => document.querySelector('.stage img')?.naturalWidth"
    assert wait_until(lambda: page.evaluate(width)) == 128
    first = page.locator(".stage img").get_attribute("src")
    page.locator(".word").nth(3).click()
    expect(page.locator(".stage img")).not_to_have_attribute("src", str(first))
    expect(page.locator(".stage canvas")).to_have_attribute("data-time", "1.75")


def test_what_was_said_outlives_the_video(page: Any, server: Server) -> None:
    open_video(page, server, "gone.mp4")
    expect(page.get_by_text("The file of the video is missing")).to_be_visible()
    expect(page.locator(".caption")).to_have_text("A video that was moved.")


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_nothing_in_a_name_or_a_caption_is_run(page: Any, server: Server, tmp_path: Path) -> None:
    expect(page.locator(".card").filter(has_text=HOSTILE)).to_have_count(1)
    open_video(page, server, HOSTILE)
    expect(page.locator(".caption")).to_have_text("<script>hacked=1</script> <b>bold</b> &amp; plain.")
    page.get_by_role("button", name="Delete this video").click()
    expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("searchbox").fill("plain")
    expect(page.locator(".hit")).to_contain_text("<b>bold</b>")
    page.get_by_role("link", name="Watchword: home").click()
    upload = tmp_path / "harmless"
    upload.write_bytes(b"not a video")
    drop(page, upload, name='"><svg onload=hacked=1>\u202e.mp4')
    expect(page.locator(".job")).to_contain_text("<svg onload=hacked=1>")
    expect(page.locator(".job[data-state=failed]")).to_have_count(1)
    assert page.evaluate("typeof hacked") == "undefined"
    assert page.locator("main svg[onload], main img[onerror], main b").count() == 0


HOSTILE_CAPTIONS = (
    "<img src=x onerror=hacked=1>",
    "<style>*{display:none}</style> </title> <script>hacked=1</script>",
    "javascript:hacked=1 {{7*7}} ${hacked=1} %3Cscript%3E &lt;b&gt;",
    "\u202eright to left\u202c a\u0000b " + "w" * 3000,
    "00:00:00.000 --> 00:00:09.000 <c.hacked>cue</c> -->",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_captioner_can_say_anything(browser: Any, tmp_path: Path, scheme: str) -> None:
    """Captions of a captioner of one's own, under a hostile name, in every view."""
    library = Library(tmp_path / "library.db")
    video = write_video(tmp_path / "a.mp4", [numbered(index) for index in range(50)])
    segments = [(2.0 * n, 2.0 * n + 2, text) for n, text in enumerate(HOSTILE_CAPTIONS)]
    said = tuple(Segment(start, end, (caption(text), caption(text))) for start, end, text in segments)
    description = Description(Path("a.mp4"), 10.0, HOSTILE, said)
    explained = explanation_on_a_grid("a.mp4", segments)
    number = library.add(description, name=HOSTILE, identity="a", source=video, explanation=explained)
    with serving(library.path, "--port", "0") as server, visiting(browser, server, color_scheme=scheme) as page:
        expect(page.locator(".card")).to_contain_text(HOSTILE)
        page.goto(f"{server.address}/#/video/{number}")
        expect(page.locator("h1.video-name")).to_have_text(HOSTILE)
        expect(page.locator("main")).to_contain_text("<img src=x onerror=hacked=1>")
        page.locator(".word").nth(1).click()
        page.get_by_role("searchbox").fill("hacked")
        expect(page.locator(".hit").first).to_be_visible()
        assert page.evaluate("typeof hacked") == "undefined"
        assert page.locator("main script, main style, main img[onerror], main c").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(FAINT) == []


def test_a_corrupt_video_gets_one_clear_line(page: Any, tmp_path: Path) -> None:
    corrupt = tmp_path / "holiday.mp4"
    corrupt.write_bytes(write_video(tmp_path / "whole.mp4", [numbered(1)] * 25).read_bytes()[40:400])
    drop(page, corrupt)
    row = page.locator(".job[data-state=failed]")
    expect(row.locator(".job-line")).to_contain_text("holiday.mp4")
    assert "\n" not in row.locator(".job-line").inner_text()
    expect(page.get_by_role("status").filter(has_text="holiday.mp4")).to_have_count(1)  # and it is read aloud
    empty = tmp_path / "empty.mp4"
    empty.touch()
    drop(page, empty)
    expect(page.locator(".job").filter(has_text="This file is empty")).to_have_count(1)
    for button in page.get_by_role("button", name=re.compile("^Dismiss")).all()[::-1]:
        button.click()
    expect(page.locator("#activity")).to_be_hidden()


def test_a_full_queue_is_told_and_tried_again(page: Any, tmp_path: Path) -> None:
    """The server's own refusal is tested with the server; here it is played, to come at the right time."""
    full = json.dumps({"error": "16 videos are waiting."})
    refusals = [{"status": 429, "headers": {"Retry-After": "1"}, "body": full}]
    page.route(
        "**/api/videos",
        lambda route: (
            route.fulfill(**refusals.pop())
            if refusals
            else route.fulfill(status=422, body=json.dumps({"error": "seen again"}))
        ),
    )
    drop(page, write_video(tmp_path / "later.mp4", [numbered(1)] * 5))
    expect(page.locator(".job-line")).to_have_text("16 videos are waiting: it is sent again by itself in 1 second.")
    expect(page.locator(".job-line")).to_have_text("seen again")


def test_a_file_that_is_too_large_is_not_sent(page: Any, tmp_path: Path) -> None:
    about = {"version": "0", "captioner": "light", "hint": "", "limits": {"bytes": 1000}, "semantic_search": False}
    large = json.dumps(about)
    page.route("**/api/about", lambda route: route.fulfill(body=large, content_type="application/json"))
    page.reload()
    expect(page.locator("#limits")).to_contain_text("1.0 kB")
    drop(page, write_video(tmp_path / "large.mp4", [numbered(1)] * 25))
    expect(page.locator(".job-line")).to_contain_text("the server takes at most 1.0 kB")


def test_a_server_that_is_killed_and_started_again_loses_nothing(browser: Any, tmp_path: Path) -> None:
    videos = [write_video(tmp_path / f"{seconds}.mp4", [numbered(seconds)] * 25 * seconds) for seconds in (1, 60)]
    library = tmp_path / "library.db"
    with serving(library, "--port", "0") as first, visiting(browser, first) as page:
        drop(page, *videos)
        expect(page.locator(".card")).to_have_count(1)  # the first is done, the second at work or waiting
        expect(page.locator(".job")).to_have_count(1)
        first.kill()
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
        with serving(library, "--port", str(first.port)):
            expect(page.locator(".card")).to_have_count(2)
            expect(page.locator(".job")).to_have_count(0)
            expect(page.get_by_role("alert")).to_have_count(0)


def test_words_that_look_in_several_ways_let_one_choose(page: Any, server: Server) -> None:
    """As those of `full` do: over time, over the picture, and of another captioner."""

    def several(route: Any) -> None:
        told = route.fetch().json()
        for segment in told["segments"]:
            grid = segment["heads"].pop("grid")
            even = np.full_like(grid["weights"], 1 / 16).tolist()
            segment["heads"] = {
                "temporal:appearance": grid,
                "spatial:appearance_grid": {**grid, "weights": even},
                "appearance": grid,
                "aligned:appearance": grid,
            }
        route.fulfill(json=told)

    page.route("**/api/videos/*/attention", several)
    open_video(page, server, "attention.mp4")
    page.get_by_role("button", name="bird", exact=True).click()
    expect(page.get_by_role("radio", name="appearance, over time")).to_be_checked()
    expect(page.locator(".peak")).to_contain_text("attention peaks at")
    page.get_by_role("radio", name="appearance grid, over the picture").check(force=True)
    expect(page.locator(".peak")).to_contain_text("attention is flat over time")
    for name in ("appearance", "appearance, aligned"):  # one name for one way of looking
        expect(page.get_by_role("radio", name=name, exact=True)).to_have_count(1)


# --- keeping order ----------------------------------------------------------------------------------------------------


def test_a_video_is_deleted_only_when_that_is_confirmed(page: Any, server: Server, tmp_path: Path) -> None:
    """With the keyboard alone, from choosing the file on."""
    video = write_video(tmp_path / "short.mp4", [numbered(3)] * 10)
    page.on("filechooser", lambda chooser: None)  # asks the browser for it now: a key is faster than the question
    expect(page.locator(".card").first).to_be_visible()
    page.locator("#files").focus()
    expect(page.locator("#files")).to_be_focused()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(video)
    expect(page.locator("h1.video-name")).to_be_focused()
    page.get_by_role("link", name="← Library").press("Enter")
    card = page.locator(".card").filter(has_text="short.mp4")
    card.get_by_role("button", name="Delete short.mp4").press("Enter")
    expect(page.get_by_role("dialog", name="Delete this video?")).to_contain_text("short.mp4")
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(card).to_have_count(1)
    card.get_by_role("button", name="Delete short.mp4").press("Enter")
    page.get_by_role("button", name="Delete", exact=True).press("Enter")
    expect(card).to_have_count(0)
    assert all(video["name"] != "short.mp4" for video in server.ask("/api/videos")["videos"])


def test_a_question_left_alone_does_not_answer_the_next(page: Any, server: Server) -> None:
    """Closed and asked again before the page hears that it was closed: still a question, and still of its own video."""
    asked: list[str] = []
    page.route("**/api/videos/*", lambda route: (asked.append(route.request.method), route.fulfill(status=500)))
    expect(page.locator(".card").first).to_be_visible()
    page.evaluate("""() => {
        const bin = document.querySelector(".card .bin");
        bin.click();
        document.querySelector("dialog").close();
        bin.click();
    }""")
    expect(page.get_by_role("dialog", name="Delete this video?")).to_have_count(1)
    assert not asked
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#trouble")).to_contain_text("500")
    assert asked == ["DELETE"]


# --- for everybody ----------------------------------------------------------------------------------------------------

# Text on what is behind it, by WCAG's formula; what lies on pictures is left out.
FAINT = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
    };
    const linear = (value) => value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = rgba(getComputedStyle(one).backgroundColor);
            if (colour[3] > 200) return colour;
        }
        return rgba(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "#111" : "#fff");
    };
    const found = [];
    for (const element of document.querySelectorAll("body *")) {
        const text = [...element.childNodes].map((node) => node.nodeType === 3 ? node.data.trim() : "").join("");
        if (!text || !element.checkVisibility() || element.closest(".picture, .unseen, .stage, .skip")) continue;
        const [one, other] = [luminance(rgba(getComputedStyle(element).color)), luminance(behind(element))];
        const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        if (contrast < 4.5) found.push([text.slice(0, 30), element.className, contrast.toFixed(1)]);
    }
    return found;
}"""
NAMELESS = """() => [...document.querySelectorAll("button, a, input, [role=img], progress, dialog, section, img")]
    .filter((element) => element.checkVisibility())
    .filter((element) => element.tagName === "IMG" ? !element.hasAttribute("alt") : !(
        element.getAttribute("aria-label")?.trim() || element.labels?.length || element.textContent.trim()
        || document.getElementById(element.getAttribute("aria-labelledby"))?.textContent.trim()))
    .map((element) => element.outerHTML.slice(0, 80))"""
TWICE = """() => { const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
    return ids.filter((id, index) => ids.indexOf(id) !== index); }"""
BROKEN_REFERENCES = """() => ["aria-labelledby", "aria-describedby", "for"].flatMap((name) =>
    [...document.querySelectorAll(`[${name}]`)].map((element) => element.getAttribute(name))
        .filter((id) => !document.getElementById(id)))"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_can_be_read_heard_and_reached(browser: Any, server: Server, scheme: str) -> None:
    with visiting(browser, server, color_scheme=scheme, reduced_motion="reduce") as page:
        expect(page.locator(".card").first).to_be_visible()
        assert page.evaluate("document.documentElement.lang") == "en"
        assert page.locator("header, main, footer, [role=search]").count() == 4
        assert page.locator("#announcer").get_attribute("aria-live") == "polite"
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        for view in ("home", "found", "video"):
            if view == "found":
                page.get_by_role("searchbox").fill("dogs")
                expect(page.locator(".hit")).to_have_count(1)
            elif view == "video":
                open_video(page, server, "attention.mp4")
                page.locator(".word").nth(1).click()
                page.locator(".sure summary").click()
            assert page.evaluate(NAMELESS) == [], view
            assert page.evaluate(FAINT) == [], view
            assert page.evaluate(TWICE) == [], view
            assert page.evaluate(BROKEN_REFERENCES) == [], view
            assert page.locator("h1:visible").count() == 1, view
        page.locator(".word").nth(2).focus()
        page.keyboard.press("ArrowLeft")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        moving = "() => document.getAnimations().length"
        assert page.evaluate(moving) == 0


def test_a_phone_shows_everything_without_scrolling_sideways(browser: Any, server: Server) -> None:
    phone = {"width": 360, "height": 740}
    with visiting(browser, server, is_mobile=True, has_touch=True, device_scale_factor=2) as page:
        page.set_viewport_size(phone)
        wide = "() => [document.documentElement.scrollWidth, innerWidth]"
        expect(page.locator(".card").first).to_be_visible()
        assert page.evaluate(wide) == [360, 360]
        page.get_by_role("searchbox").fill("a")
        expect(page.locator(".hit").first).to_be_visible()
        assert page.evaluate(wide) == [360, 360]
        for name in ("attention.mp4", HOSTILE, "stills.avi"):
            open_video(page, server, name)
            page.locator(".word").nth(1).tap()
            expect(page.locator(".frame-button")).to_have_count(3)
            assert page.evaluate(wide) == [360, 360]
        small = """() => [...document.querySelectorAll("button, a, summary")].filter((one) => one.checkVisibility())
            .filter((one) => one.getBoundingClientRect().height < 24).map((one) => one.outerHTML.slice(0, 60))"""
        assert page.evaluate(small) == []  # WCAG's smallest target
