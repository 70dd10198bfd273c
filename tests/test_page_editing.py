"""The page in Chromium: captions by hand, confidence, lists, selections, captioners, chapters. A fake captioner."""

import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlparse

import pytest

from tests.servers import Client, FakeCaptionProcess, limits_of, serving
from tests.test_page import (
    BROKEN_REFERENCES,
    CHROMIUM,
    FAINT,
    NAMELESS,
    SWITCHES,
    TWICE,
    Server,
    expect,
    explanation_on_a_grid,
    playwright,
    pytestmark,
    visiting,
    wait_until,
)
from tests.videos import numbered, write_video
from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library
from watchword.server.service import Service

__all__ = ["pytestmark"]  # slow, and only with a browser
TEXTS = "a tall man talks about cars", "two brown dogs run along beach", "happy people dance together outside"
LONG = [(10.0 * n, 10.0 * n + 10, f"{TEXTS[n // 8]} {n}") for n in range(24)]


def caption(text: str, confidence: float, at: float) -> Caption:
    return Caption(tuple(Word(word, 0.5, {"grid": at}) for word in text.split()), confidence)


def keep(library: Library, name: str, source: Path, confidence: float, segments: list[tuple[float, float, str]]) -> int:
    said = tuple(
        Segment(start, end, (caption(text, confidence, start + 1.0), caption("it is something else", 0.1, start)))
        for start, end, text in segments
    )
    description = Description(Path(name), segments[-1][1], "fake", said)
    explanation = explanation_on_a_grid(name, segments)
    return library.add(description, name=name, identity=name, source=source, explanation=explanation)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Client, FakeCaptionProcess]]:
    """Four videos: a sure one, an unsure one, a long one, and one without a file."""
    played = write_video(tmp_path / "played.mp4", [numbered(n) for n in range(150)])
    long = write_video(tmp_path / "slow.mp4", [numbered(n) for n in range(25)], [10_000 * n for n in range(25)])
    captioner = FakeCaptionProcess(("fake", "other"))
    service = Service(tmp_path / "library.db", None, limits_of(), captioner=cast(Any, lambda *_: captioner))
    library = service.storage.library
    for name, confidence, segments in (
        ("bird.mp4", 0.6, [(0.0, 6.0, "a red bird sings")]),
        ("guess.mp4", 0.2, [(0.0, 6.0, "a man talks")]),
        ("long.mp4", 0.5, LONG),
    ):
        source = long if segments is LONG else played
        keep(library, name, Path(shutil.copy(source, tmp_path / name)), confidence, segments)
    keep(library, "gone.mp4", tmp_path / "gone.mp4", 0.5, [(0.0, 6.0, "it is gone")])
    with serving(service) as client:
        yield client, captioner


Served = tuple[Client, FakeCaptionProcess]


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    with visiting(browser, at(served)) as page:
        yield page


def at(served: Served) -> Server:
    return cast(Server, SimpleNamespace(address=f"http://127.0.0.1:{served[0].port}"))


def number_of_video(served: Served, name: str) -> int:
    videos = served[0].get("/api/videos").json["videos"]
    return next(int(video["id"]) for video in videos if video["name"] == name)


def open_video(page: Any, served: Served, name: str) -> int:
    number = number_of_video(served, name)
    page.goto(f"{at(served).address}/#/video/{number}")
    expect(page.locator("h1.video-name")).to_have_text(name)
    return number


# --- captions by hand ------------------------------------------------------------------------------------------------


def test_a_caption_is_corrected_and_the_original_is_one_click_away(page: Any, served: Served) -> None:
    number = open_video(page, served, "bird.mp4")
    page.get_by_role("button", name="Edit caption").click()
    box = page.get_by_role("textbox", name="Caption")
    expect(box).to_be_focused()
    expect(box).to_have_value("a red bird sings")
    box.fill("a robin <b>sings</b>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".caption")).to_have_text("A robin <b>sings</b>.")
    expect(page.get_by_text("Edited by hand")).to_be_visible()
    expect(page.locator(".attention")).to_be_hidden()  # of the captioner's words, not of these
    expect(page.locator(".sure-line")).to_have_count(0)
    page.get_by_role("button", name="Show the original").click()
    expect(page.locator(".caption")).to_have_text("A red bird sings.")
    expect(page.locator(".sure-line")).to_contain_text("0.60")
    page.locator(".word").nth(1).click()  # its attention is there
    expect(page.locator(".peak")).to_contain_text("“red”: attention peaks at")
    page.get_by_role("button", name="Show the edited caption").click()
    expect(page.locator(".caption")).to_have_text("A robin <b>sings</b>.")

    page.get_by_role("link", name="← Library").click()
    card = page.locator(f'.card[data-video="{number}"]')
    expect(card.locator(".card-caption")).to_have_text("A robin <b>sings</b>.")
    expect(card.locator(".tag")).to_have_text("edited")
    page.get_by_role("searchbox", name="Search the captions").fill("robin")
    expect(page.locator(".hit .tag")).to_have_text("edited")
    assert b"A robin" in served[0].get(f"/api/videos/{number}/subtitles.srt").body

    open_video(page, served, "bird.mp4")
    page.get_by_role("button", name="Show the original").click()
    page.get_by_role("button", name="Restore the original").click()
    expect(page.locator(".caption")).to_have_text("A red bird sings.")
    expect(page.get_by_role("button", name="Edit caption")).to_be_focused()
    assert served[0].get("/api/search?q=robin").json["total"] == 0


def test_a_caption_is_corrected_with_the_keys_in_a_timeline(page: Any, served: Served) -> None:
    open_video(page, served, "long.mp4")
    page.locator(".segment-list .segment-button").nth(1).click()
    edit = page.get_by_role("button", name="Edit caption")
    edit.press("Enter")
    page.keyboard.type("nothing")
    page.keyboard.press("Escape")
    expect(edit).to_be_focused()
    expect(page.locator(".caption")).to_have_text("A tall man talks about cars 1.")
    edit.press("Enter")
    page.keyboard.type("someone reads / aloud")  # the slash writes: it does not search
    page.keyboard.press("Enter")
    expect(page.locator(".caption")).to_have_text("Someone reads / aloud.")
    row = page.locator(".segment-list .segment-button").nth(1)
    expect(row).to_contain_text("Someone reads / aloud.")
    expect(row).to_contain_text("edited")
    expect(row).to_have_attribute("aria-current", "true")
    expect(page.locator(".chapter-list .segment-button").first).to_contain_text("Someone reads / aloud.")
    cues = "() => [...document.querySelector('video').textTracks[0].cues ?? []].map((cue) => cue.text)"
    wait_until(lambda: "Someone reads / aloud." in page.evaluate(cues), 20)


def test_a_correction_that_fails_is_told_and_what_was_written_stays(page: Any, served: Served) -> None:
    open_video(page, served, "bird.mp4")
    page.route("**/caption", lambda route: route.fulfill(status=507, body=json.dumps({"error": "the disk is full"})))
    page.get_by_role("button", name="Edit caption").click()
    page.get_by_role("textbox", name="Caption").fill("a robin")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_have_text("the disk is full")
    expect(page.get_by_role("textbox", name="Caption")).to_have_value("a robin")


# --- confidence ------------------------------------------------------------------------------------------------------


def test_an_unsure_caption_is_a_guess_everywhere(page: Any, served: Served) -> None:
    sure, unsure = (page.locator(".card").filter(has_text=name) for name in ("bird.mp4", "guess.mp4"))
    expect(sure.locator(".card-caption")).to_have_text("A red bird sings.")
    expect(sure.locator(".tag")).to_have_text("confidence 0.60")
    expect(unsure.locator(".card-caption")).to_have_text("Perhaps a man talks?")
    expect(unsure.locator(".tag")).to_have_text("unsure, 0.20")
    page.get_by_role("searchbox", name="Search the captions").fill("talks")
    hit = page.locator(".hit").filter(has_text="guess.mp4")
    expect(hit.locator(".hit-caption")).to_have_text("a man talks?")
    expect(hit.locator(".tag")).to_have_text("unsure, 0.20")
    expect(page.locator(".hit .tag").filter(has_text="confidence 0.50")).to_have_count(8)
    open_video(page, served, "guess.mp4")
    expect(page.get_by_text("Unsure: this is a guess")).to_be_visible()
    expect(page.locator(".caption")).to_have_text("A man talks?")
    open_video(page, served, "bird.mp4")
    expect(page.get_by_text("Unsure: this is a guess")).to_be_hidden()


def test_pictures_are_of_the_captioned_time(page: Any, served: Served) -> None:
    number = open_video(page, served, "long.mp4")
    poster = urlparse(page.locator("video").get_attribute("poster"))
    assert (poster.path, parse_qs(poster.query)["seconds"]) == (f"/api/videos/{number}/frame", ["1.00"])
    page.get_by_role("searchbox", name="Search the captions").fill("dance 17")
    expect(page.locator(".hit")).to_have_count(1)
    picture = urlparse(page.locator(".hit img").get_attribute("src"))
    assert parse_qs(picture.query) == {"seconds": ["171.00"], "small": ["true"]}


# --- lists -----------------------------------------------------------------------------------------------------------


def names(page: Any) -> list[str]:
    facts = page.locator(".card-facts").all_inner_texts()
    return [found[0] for text in facts if (found := re.search(r"\w+\.mp4", text))]


def test_the_library_is_sorted_and_filtered(page: Any) -> None:
    expect(page.locator(".card")).to_have_count(4)
    page.get_by_label("Sort").select_option("Name")
    wait_until(lambda: names(page) == ["bird.mp4", "gone.mp4", "guess.mp4", "long.mp4"])
    page.get_by_label("Sort").select_option("Least confident first")
    wait_until(lambda: names(page)[0] == "guess.mp4")
    page.get_by_label("Show").select_option("Unsure")
    wait_until(lambda: names(page) == ["guess.mp4"])
    expect(page.locator("#library-count")).to_have_text("1 video")
    page.get_by_label("Show").select_option("Edited")
    expect(page.get_by_text("No video fits.")).to_be_visible()
    page.get_by_label("Show").select_option("All")
    page.get_by_label("Filter by name").fill("G")
    wait_until(lambda: sorted(names(page)) == ["gone.mp4", "guess.mp4", "long.mp4"])
    page.reload()
    wait_until(lambda: len(names(page)) == 4 and names(page)[0] == "guess.mp4")  # the order is remembered


def test_facts_of_a_card_break_between_each_other_and_the_tools_of_a_phone_stand_in_rows(
    browser: Any, served: Served
) -> None:
    rows = "(name) => [...document.querySelectorAll(name)].map((one) => Math.round(one.getBoundingClientRect().bottom))"
    with visiting(browser, at(served)) as page:
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(page.locator(".fact").first).to_be_visible()
        parts = page.evaluate("() => [...document.querySelectorAll('.fact')].map((one) => one.getClientRects().length)")
        assert set(parts) == {1}  # a date is not cut in two
        assert "·" not in page.locator("#cards").inner_text()  # no line begins with it
        page.set_viewport_size({"width": 390, "height": 844})
        sort, show, form = page.evaluate(rows, "#library-tools select")
        assert sort == show
        assert (
            abs(form - page.evaluate(rows, "#library-tools a.button")[0]) < 4
        )  # the format stands beside its download


def test_several_videos_are_selected_and_downloaded(page: Any, served: Served) -> None:
    download = page.get_by_role("link", name=re.compile("^Download"))
    expect(download).to_have_text("Download all")
    for name in ("bird.mp4", "long.mp4"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    expect(page.get_by_text("2 videos selected")).to_be_visible()
    page.get_by_label("Format").select_option("SRT")
    with page.expect_download() as saved:
        download.click()
    assert saved.value.suggested_filename == "watchword-srt.zip"
    archive = zipfile.ZipFile(io.BytesIO(Path(saved.value.path()).read_bytes()))
    assert sorted(archive.namelist()) == ["bird.srt", "long.srt"]
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Format").select_option("JSON")
    with page.expect_download() as saved:
        download.click()
    assert len(json.loads(Path(saved.value.path()).read_text())["videos"]) == 4


def test_several_videos_are_deleted_after_one_question(page: Any, served: Served) -> None:
    page.get_by_role("button", name="Select all").click()
    page.get_by_role("checkbox", name="Select long.mp4").uncheck()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog", name="Delete 3 videos?")).to_contain_text("guess.mp4")
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator(".card")).to_have_count(1)
    expect(page.get_by_text("selected")).to_have_count(0)
    assert [video["name"] for video in served[0].get("/api/videos").json["videos"]] == ["long.mp4"]


def test_several_videos_are_described_again(page: Any, served: Served) -> None:
    for name in ("bird.mp4", "guess.mp4"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Describe again").click()
    expect(page.locator(".card").filter(has_text="A dog runs.")).to_have_count(2)
    expect(page.locator(".job")).to_have_count(0)
    assert sorted(served[1].names) == ["bird.mp4", "guess.mp4"]
    expect(page.get_by_text("selected")).to_have_count(0)


def test_an_unsure_caption_of_a_video_at_work_is_a_guess(page: Any, served: Served) -> None:
    served[1].may_continue.clear()
    page.get_by_role("checkbox", name="Select bird.mp4").check()
    page.get_by_role("button", name="Describe again").click()
    expect(page.locator(".job-caption")).to_have_text("Perhaps a dog?")
    served[1].may_continue.set()
    expect(page.locator(".job")).to_have_count(0)


def test_a_video_is_described_again_by_the_chosen_captioner_which_is_remembered(page: Any, served: Served) -> None:
    open_video(page, served, "bird.mp4")
    page.locator("#video").get_by_label("Captioner").select_option("other")
    page.get_by_role("button", name="Describe again").click()
    expect(page.locator(".caption")).to_have_text("A dog runs.")  # it opens when it is done
    expect(page.locator(".facts")).to_contain_text("described by other")
    assert served[1].chosen == ["other"]
    page.goto(at(served).address)
    page.reload()
    expect(page.locator("#home").get_by_label("Captioner")).to_have_value("other")
    video = page.locator("#files")
    video.set_input_files({"name": "new.mp4", "mimeType": "video/mp4", "buffer": b"not a video"})
    with page.expect_request("**/api/videos?captioner=other"):
        video.set_input_files({"name": "newer.mp4", "mimeType": "video/mp4", "buffer": b"no video"})
    open_video(page, served, "gone.mp4")
    expect(page.get_by_role("button", name="Describe again")).to_be_disabled()


# --- long videos, and captions over the picture ----------------------------------------------------------------------


def test_a_long_video_has_chapters_and_a_list_that_shows_it_goes_on(page: Any, served: Served) -> None:
    open_video(page, served, "long.mp4")
    chapters = page.locator(".chapter-list .segment-button")
    expect(chapters).to_have_text([re.compile("0:00.*talks"), re.compile("1:20.*dogs"), re.compile("2:40.*dance")])
    expect(chapters.first).to_have_attribute("aria-current", "true")
    rest = page.locator(".list-rest")
    expect(rest).to_have_text(re.compile(r"^\d+ more segments below$"))
    before = int(rest.inner_text().split()[0])
    rest.click()
    wait_until(lambda: int(rest.inner_text().split()[0]) < before)
    page.locator(".segment-list").evaluate("(list) => { list.scrollTop = list.scrollHeight; }")
    expect(rest).to_be_hidden()
    chapters.nth(2).click()
    expect(page.locator(".caption")).to_have_text("Happy people dance together outside 16.")
    expect(chapters.nth(2)).to_have_attribute("aria-current", "true")
    kinds = "() => [...document.querySelector('video').textTracks].map((track) => track.kind)"
    assert page.evaluate(kinds) == ["descriptions", "chapters"]


def test_captions_stand_over_the_playing_video(page: Any, served: Served) -> None:
    open_video(page, served, "guess.mp4")
    words, button = page.locator(".stage-words"), page.get_by_role("button", name="Captions over the video")
    expect(words).to_be_hidden()  # a still picture shows attention
    page.get_by_role("button", name="Play").click()
    expect(words).to_be_visible()
    expect(words).to_have_text("Perhaps a man talks?")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(words).to_be_hidden()
    page.reload()
    expect(button).to_have_attribute("aria-pressed", "false")


# --- for everybody ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_new_can_be_read_heard_and_reached(browser: Any, served: Served, scheme: str) -> None:
    with visiting(browser, at(served), color_scheme=scheme, reduced_motion="reduce") as page:
        expect(page.locator(".card").first).to_be_visible()
        for view in ("selected", "guess", "editor", "edited", "long"):
            if view == "selected":
                page.get_by_role("checkbox", name="Select bird.mp4").check()
            elif view == "guess":
                open_video(page, served, "guess.mp4")
            elif view == "editor":
                page.get_by_role("button", name="Edit caption").click()
            elif view == "edited":
                page.get_by_role("textbox", name="Caption").fill("a woman talks")
                page.get_by_role("button", name="Save").click()
                expect(page.get_by_text("Edited by hand")).to_be_visible()
            else:
                open_video(page, served, "long.mp4")
                expect(page.locator(".list-rest")).to_be_visible()
            for fault in (NAMELESS, FAINT, TWICE, BROKEN_REFERENCES):
                assert page.evaluate(fault) == [], view


def test_a_phone_has_room_for_it(browser: Any, served: Served) -> None:
    with visiting(browser, at(served), is_mobile=True, has_touch=True, device_scale_factor=2) as page:
        page.set_viewport_size({"width": 360, "height": 740})
        wide = "() => [document.documentElement.scrollWidth, innerWidth]"
        page.get_by_role("checkbox", name="Select bird.mp4").check()
        assert page.evaluate(wide) == [360, 360]
        open_video(page, served, "long.mp4")
        page.get_by_role("button", name="Edit caption").tap()
        page.get_by_role("textbox", name="Caption").fill("a woman talks")
        assert page.evaluate(wide) == [360, 360]
        page.get_by_role("button", name="Save").tap()
        expect(page.get_by_text("Edited by hand")).to_be_visible()
        assert page.evaluate(wide) == [360, 360]
        small = """() => [...document.querySelectorAll("button, a, summary, select, input[type=checkbox]")]
            .filter((one) => one.checkVisibility())
            .filter((one) => one.getBoundingClientRect().height < 24).map((one) => one.outerHTML.slice(0, 60))"""
        assert page.evaluate(small) == []


# --- the reference of the API -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_reference_can_be_tried(browser: Any, served: Served, scheme: str) -> None:
    with visiting(browser, at(served), color_scheme=scheme) as page:
        hosts: set[str] = set()
        page.on("request", lambda request: hosts.add(urlparse(request.url).netloc))
        page.goto(f"{at(served).address}/api/docs")

        expect(page.locator("li code").filter(has_text=re.compile("^captioners$")).first).to_be_visible()
        assert "`" not in page.locator("main").inner_text()

        def open_form(title: str) -> Any:
            section = page.locator("section").filter(has=page.get_by_role("heading", name=title, exact=True))
            section.locator("summary").click()
            return section

        form = open_form("GET /api/videos")
        form.get_by_label("sort").fill("name")
        form.get_by_role("button", name="Send").click()
        expect(form.locator(".answer")).to_contain_text("GET /api/videos?sort=name\n200")
        expect(form.locator(".answer")).to_contain_text('"guess.mp4"')
        form = open_form("PUT /api/videos/{video}/segments/{segment}/caption")
        form.get_by_label("video").fill(str(number_of_video(served, "bird.mp4")))
        form.get_by_label("segment").fill("0")
        form.get_by_label("body").fill('{"caption": "a robin sings"}')
        form.get_by_role("button", name="Send").click()
        expect(form.locator(".answer")).to_contain_text('"edited": true')
        form = open_form("POST /api/describe")
        form.get_by_label("file").set_input_files({"name": "x.mp4", "mimeType": "video/mp4", "buffer": b"no video"})
        form.get_by_role("button", name="Send").click()
        expect(form.locator(".answer")).to_contain_text("422")
        assert hosts == {urlparse(at(served).address).netloc}
        assert page.evaluate(FAINT) == []
        assert page.evaluate(NAMELESS) == []
