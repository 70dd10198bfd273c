"""The lanes under the player, in a real browser."""

from collections.abc import Iterator
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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    library = Library(tmp_path / "library.db")
    source = write_video(tmp_path / "talk.mp4", [numbered(index) for index in range(100)])
    library.add(described(), name="talk.mp4", identity="talk", source=source, explanation=None)
    with serving(library.path, "--port", "0") as running:
        yield running


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
