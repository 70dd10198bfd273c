"""The page of `watchword explain` in a real browser: from a file, without a network."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.test_explain import HOSTILE, QUARTERS, explanation, segment
from tests.videos import numbered, write_video
from watchword.explain.attention import ExplainedWord, HeadAttention
from watchword.explain.page import make_page
from watchword.types import Bars, Mark

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser to look with")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: no browser to look with")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", [numbered(index) for index in range(25)])


class Opened:
    """A page that is open, and everything it did that it should not."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        self.page = browser.new_page(**settings)
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda line: self.troubles.append(line.text) if line.type == "error" else None)
        self.page.on("dialog", lambda dialog: (self.troubles.append("a dialog"), dialog.dismiss()))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())

    def _request(self, request: Any) -> None:
        if request.url.startswith(("http", "ws", "ftp")):
            self.troubles.append(request.url)

    def painted(self) -> float:
        """The share of the overlay's pixels that are not clear."""
        return self.page.evaluate("""() => {
            const canvas = document.querySelector(".stage canvas");
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return data.filter((value, index) => index % 4 === 3 && value > 8).length / (data.length / 4);
        }""")

    @property
    def video_seconds(self) -> float:
        return self.page.evaluate("() => document.querySelector('video').currentTime")


def test_a_word_is_chosen_by_mouse_and_keys_and_the_video_goes_to_its_time(
    browser: Any, clip: Path, tmp_path: Path
) -> None:
    bars = (Bars("layers", ("low", "deep"), np.array([[0, 0], [0.25, 0.75], [1, 0]])),)
    pooled = HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS[:1], np.full((3, 3, 1), 1 / 3))
    made = segment(bars=bars, marks=(Mark("key_frame", 0.4),))
    made = replace(made, heads={"pooled": pooled, **made.heads})
    path = tmp_path / "page.html"
    path.write_text(make_page(explanation(made), clip, path))
    opened = Opened(browser, path, viewport={"width": 390, "height": 800})
    page, words = opened.page, opened.page.locator(".word")
    page.wait_for_selector(".stage video:visible")
    words.nth(1).click()
    assert words.nth(1).get_attribute("aria-pressed") == "true"
    assert "“dog” (grid) most at 0.4 s (100%), upper right." in page.locator(".peak-text").inner_text()
    page.wait_for_function("() => Math.abs(document.querySelector('video').currentTime - 0.4) < 0.05")
    assert opened.painted() > 0.2
    assert page.locator(".bars b").all_inner_texts() == ["25%", "75%"]
    page.keyboard.press("ArrowRight")
    assert words.nth(2).get_attribute("aria-pressed") == "true"
    page.wait_for_function("() => Math.abs(document.querySelector('video').currentTime - 0.8) < 0.05")
    words.nth(0).click()  # looks at everything alike: nothing is painted
    assert opened.painted() == 0
    page.get_by_label("pooled").check()
    assert "(pooled) flat over time" in page.locator(".peak-text").inner_text()
    assert page.locator(".timeline svg .key_frame").count() == 1
    page.locator(".seek").fill("0.2")
    page.wait_for_function("() => Math.abs(document.querySelector('video').currentTime - 0.2) < 0.06")
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => document.querySelector('video').currentTime > 0.4")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "the page is wider than a phone"
    assert opened.troubles == []


def test_a_video_that_browsers_do_not_play_is_shown_by_its_frames(browser: Any, tmp_path: Path) -> None:
    odd = write_video(tmp_path / "odd.avi", [numbered(index) for index in range(25)], codec="mpeg4")
    path = tmp_path / "page.html"
    path.write_text(make_page(explanation(segment(), segment(start=1.0, end=2.0)), odd, path))
    opened = Opened(browser, path, color_scheme="dark", viewport={"width": 1200, "height": 800})
    page, frame = opened.page, opened.page.locator(".stage img")
    page.locator(".word").nth(1).click()
    first = frame.get_attribute("src")
    assert first is not None
    assert first.startswith("data:image/jpeg")
    page.locator(".word").nth(5).click()  # the second segment's last word
    assert frame.get_attribute("src") != first
    assert page.locator(".segment.chosen").get_attribute("data-segment") == "1"
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert max(int(one) for one in dark.removeprefix("rgb(").removesuffix(")").split(",")) < 60
    assert opened.troubles == []


def test_nothing_that_strangers_wrote_runs(browser: Any, clip: Path, tmp_path: Path) -> None:
    head = HeadAttention(np.array([0.1, 0.5]), QUARTERS, np.full((1, 2, 4), 1 / 8))
    bars = (Bars(HOSTILE, (HOSTILE, "b"), np.ones((1, 2)) / 2),)
    bad = replace(segment(HOSTILE), words=(ExplainedWord(HOSTILE, 0.5),), heads={HOSTILE: head, "b": head}, bars=bars)
    path = tmp_path / "page.html"
    path.write_text(make_page(explanation(bad, video=HOSTILE, captioner=HOSTILE), clip, path))
    opened = Opened(browser, path)
    opened.page.locator(".word").first.click()
    opened.page.locator(".heads label").first.click()
    opened.page.wait_for_timeout(200)
    assert HOSTILE in opened.page.locator(".peak-text").inner_text()
    assert opened.page.locator("h1").inner_text() == HOSTILE
    assert opened.troubles == []
