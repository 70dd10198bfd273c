"""The lanes under the player, in a real browser."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.test_lanes import LANES, SPEECH, described
from tests.test_page import (  # noqa: F401
    PATIENCE,
    Server,
    browser,
    expect,
    open_video,
    pytestmark,
    serving,
    visiting,
)
from tests.videos import numbered, write_video
from watchword.library import Library
from watchword.types import Cue


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    library = Library(tmp_path / "library.db")
    source = write_video(tmp_path / "talk.mp4", [numbered(index) for index in range(100)])
    library.add(described(), name="talk.mp4", identity="talk", source=source, explanation=None)
    said = tuple(Cue(float(step), step + 1.0, f"sentence {step}", 0.9) for step in range(40))
    lecture = replace(described("lecture.mp4"), lanes={"speech": said})
    copy = Path(shutil.copy(source, tmp_path / "lecture.mp4"))
    library.add(lecture, name="lecture.mp4", identity="lecture", source=copy, explanation=None)
    with serving(library.path, "--port", "0") as running:
        yield running


def test_a_long_list_says_that_it_goes_on_and_follows_the_video(browser: Any, server: Server) -> None:  # noqa: F811
    with visiting(browser, server) as page:
        open_video(page, server, "lecture.mp4")
        rest = page.locator(".lane .list-rest")
        expect(rest).to_have_text(re.compile(r"^\d+ more cues below$"))
        rest.click()
        expect(page.get_by_role("button", name="sentence 0")).not_to_be_in_viewport()
        page.locator(".timeline input").focus()
        page.keyboard.press("End")
        expect(page.locator(".lane [aria-current]")).to_contain_text("sentence 3")
        expect(page.locator(".lane [aria-current]")).to_be_in_viewport()


def test_what_is_said_and_written_is_shown_switched_followed_and_found(browser: Any, server: Server) -> None:  # noqa: F811
    with visiting(browser, server) as page:
        open_video(page, server, "talk.mp4")
        lanes = page.locator(".lane")
        expect(lanes).to_have_count(len(LANES))
        speech = page.get_by_role("region", name="Said", exact=True)
        expect(speech.locator(".segment-button-caption")).to_have_text([cue.text for cue in SPEECH])
        speech.get_by_role("button", name=SPEECH[1].text).click()
        expect(speech.locator("[aria-current]")).to_contain_text(SPEECH[1].text)
        modes = "() => [...document.querySelector('video').textTracks].map((one) => `${one.kind} ${one.mode}`)"
        assert page.evaluate(modes) == ["descriptions hidden", "chapters hidden", "subtitles showing"]
        page.get_by_role("checkbox", name="Said", exact=True).uncheck()
        expect(speech).to_be_hidden()
        assert page.evaluate(modes) == ["descriptions hidden", "chapters hidden", "subtitles hidden"]
        page.locator("#search").fill("said:sleeps")
        expect(page.locator(".hit-caption")).to_have_text(f"said: {SPEECH[1].text}", timeout=PATIENCE)
        expect(page.locator(".hit-caption mark")).to_have_text("sleeps")
