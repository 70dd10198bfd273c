"""What each word looked at: explanation as data, and the pages, pictures and videos that are made of it."""

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import av
import jsonschema
import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from tests.captioners import write_captioner
from tests.videos import numbered, write_video
from watchword.captioning.captioner import Captioner, diagnose
from watchword.captioning.writers import certainty
from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.explain.attention import (
    ExplainedWord,
    Explanation,
    HeadAttention,
    SegmentExplanation,
    flat_notes,
    frame_times,
    main_head,
    peak,
    peak_text,
    strength,
    where,
)
from watchword.explain.figure import draw_figure
from watchword.explain.overlay import HOT, VEIL, FrameSet, glow, heat_of, paint, spotlight, veil
from watchword.explain.page import make_page, played
from watchword.explain.video import write_video as write_explained
from watchword.models import build_model
from watchword.tensors import EOS, Stream
from watchword.types import Bars, Diagnostics, Mark
from watchword.video import browser_type

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "reference" / "explain.schema.json").read_text())
QUARTERS = np.array([[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]])
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
RUN = CliRunner()


def segment(words: str = "a dog runs", **changes: Any) -> SegmentExplanation:
    """Three words over three time steps and four quarters; attention is uniform for the first, else it has one peak."""
    spoken = tuple(ExplainedWord(word, 0.5) for word in words.split())
    weights = np.zeros((3, 3, 4))
    weights[0] = 1 / 12
    weights[1, 1, 1] = 1.0
    weights[2, 2, 2], weights[2, 0, 0] = 0.75, 0.25
    head = HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS, weights)
    made = SegmentExplanation(0.0, 1.0, words, 0.7, spoken, {"grid": head})
    return replace(made, **changes)


def explanation(*segments: SegmentExplanation, video: str = "clip.mp4", captioner: str = "light") -> Explanation:
    return Explanation(video, 1.0, captioner, segments or (segment(),))


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pictures = [numbered(index) for index in range(25)]
    return write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", pictures, tone=440.0)


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioner") / "small")


# --- data ------------------------------------------------------------------------------------------------------------


def test_explanation_is_what_the_schema_says_and_comes_back_from_json() -> None:
    marks = (Mark("key_frame", 0.4), Mark("chosen_frame", 0.8, 2))
    bars = (Bars("layers", ("low", "deep"), np.array([[0, 0], [0.25, 0.75], [1, 0]])),)
    made = explanation(segment(marks=marks, bars=bars), segment(heads={}))
    values = json.loads(json.dumps(made.values()))
    jsonschema.validate(values, SCHEMA)
    back = Explanation.read(values)
    assert back.values() == values
    assert back.segments[0].marks == marks
    assert np.array_equal(back.segments[0].heads["grid"].weights[1:], made.segments[0].heads["grid"].weights[1:])


def test_places_that_nobody_looked_at_and_tiny_weights_are_not_kept() -> None:
    weights = np.array([[[0.99, 0.0, 0.0099, 0.0001]]])
    head = HeadAttention(np.zeros(1), np.broadcast_to(QUARTERS, (1, 4, 4)), weights)
    kept = explanation(segment("a", heads={"things": head})).values()["segments"][0]["heads"]["things"]
    assert kept["weights"] == [[[0.99, 0.0099]]]
    assert kept["boxes"] == [[QUARTERS[0].tolist(), QUARTERS[2].tolist()]]


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values.update(version=99),
        lambda values: values.pop("segments"),
        lambda values: values["segments"][0]["heads"]["grid"]["times"].append(9.0),
        lambda values: values["segments"][0]["heads"]["grid"]["weights"].pop(),
        lambda values: values["segments"][0]["heads"]["grid"].update(boxes=[[0, 0, 1]]),
        lambda values: values["segments"][0]["marks"].append({"kind": "nonsense", "word": None, "seconds": 1}),
        lambda values: values["segments"][0]["marks"].append({"kind": "key_frame", "word": 3, "seconds": 1}),
        lambda values: values["segments"][0].update(start=float("nan")),
        lambda values: values["segments"][0].update(words="dog"),
    ],
)
def test_what_is_not_explanation_is_one_clear_line(change: Any) -> None:
    values = json.loads(json.dumps(explanation().values()))
    change(values)
    with pytest.raises(WatchwordError, match="explanation"):
        Explanation.read(values)


# --- telling ---------------------------------------------------------------------------------------------------------


def test_a_peak_is_the_time_step_with_most_attention_and_its_locations() -> None:
    seen = peak(segment(), "grid", 2)
    assert (seen.step, seen.seconds, seen.share) == (2, 0.8, 0.75)
    assert seen.locations.tolist() == [0, 0, 1, 0]
    assert seen.where == "lower left"
    assert peak_text(segment(), "grid", 2) == "most at 0.8 s (75%), lower left"
    assert peak_text(segment(), "grid", 0) == "flat over time"


def test_attention_that_hardly_differs_from_even_is_called_flat() -> None:
    times = np.array([0.1, 0.4, 0.8])
    flat = HeadAttention(times, QUARTERS[:1], np.array([[[0.3], [0.3], [0.4]], [[0.1], [0.1], [0.8]]]))
    made = segment("a dog", heads={"pooled": flat})
    assert peak_text(made, "pooled", 0) == "flat over time"
    assert flat_notes(made) == [
        "pooled: attention is flat for 1 of 2 words; its weights hardly differ from even and are no evidence"
    ]
    clear = HeadAttention(times, QUARTERS[:1], np.array([[[0.1], [0.1], [0.8]]] * 2))
    one = HeadAttention(times[:1], QUARTERS[:1], np.ones((2, 1, 1)))  # nothing to choose from
    places = HeadAttention(times[:1], QUARTERS, np.array([[[0.7, 0.1, 0.1, 0.1]]] * 2))
    assert flat_notes(segment("a dog", heads={"clear": clear, "one": one, "places": places})) == []


def test_where_attention_over_time_is_uniform_other_heads_and_then_key_frames_choose_the_time() -> None:
    places = np.zeros((1, 3, 4))
    places[0, :, 3] = 1 / 3
    spatial = HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS, places)
    temporal = HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS[:1], np.array([[[0.1], [0.1], [0.8]]]))
    key = (Mark("first_key_frame", 0.4), Mark("key_frame", 0.1))
    alone, both = segment("a", heads={"spatial": spatial}), {"temporal": temporal, "spatial": spatial}
    assert peak(alone, "spatial", 0).seconds == 0.4  # the middle
    assert peak(replace(alone, marks=key), "spatial", 0).seconds == 0.1
    assert peak(replace(alone, marks=key, heads=both), "spatial", 0).seconds == 0.8
    assert peak(alone, "spatial", 0).where == "lower right"


def test_frames_without_any_weight_were_not_chosen() -> None:
    chosen = np.zeros((1, 3, 4))
    chosen[0, :2] = 1 / 8  # two frames with the same share, as G2L has it
    made = segment("a", heads={"local": HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS, chosen)})
    assert not peak(made, "local", 0).times_uniform
    assert strength(chosen.sum(-1)).tolist() == [[0.375, 0.375, 0]]


def test_the_head_that_prefers_places_is_drawn() -> None:
    pooled = HeadAttention(np.array([0.1, 0.4, 0.8]), QUARTERS[:1], np.full((3, 3, 1), 1 / 3))
    grid = segment().heads["grid"]
    even = HeadAttention(grid.times, QUARTERS, np.full((3, 3, 4), 1 / 12))
    assert main_head(segment(heads={"grid": grid, "pooled": pooled, "even": even})) == "grid"
    assert main_head(segment(heads={"pooled": pooled, "even": even})) == "pooled"
    assert main_head(segment(heads={})) is None


@pytest.mark.parametrize(("place", "words"), [*enumerate(["upper left", "upper right", "lower left", "lower right"])])
def test_a_place_has_a_name(place: int, words: str) -> None:
    assert where(np.eye(4)[place], QUARTERS) == words
    assert where(np.full(4, 0.25), QUARTERS) == "centre"
    assert where(np.array([0.5, 0.5, 0, 0]), QUARTERS) == "upper middle"


def test_pictures_are_read_of_what_was_looked_at_and_chosen() -> None:
    made = segment(marks=(Mark("key_frame", 0.55),))
    assert {0.4, 0.8, 0.55} <= set(frame_times(made, 40))
    assert len(frame_times(made, 2)) == 2
    assert len(frame_times(segment(heads={}), 6)) == 6  # a video without attention still has pictures


# --- painting --------------------------------------------------------------------------------------------------------


def test_heat_is_one_where_all_is_looked_at_alike_and_more_where_it_was_preferred() -> None:
    even = heat_of(np.full(4, 0.25), QUARTERS, (40, 20))
    assert even.shape == (20, 40)
    assert np.allclose(even, 1, atol=0.05)
    one = heat_of(np.array([0.0, 1.0, 0, 0]), QUARTERS, (40, 20))
    assert one[4, 32] == pytest.approx(4, rel=0.05)
    assert one[15, 8] == pytest.approx(0, abs=0.01)
    assert one.mean() == pytest.approx(1, rel=0.1)
    some = heat_of(np.array([0.1, 0.7, 0.1, 0.1]), QUARTERS, (40, 20))
    assert some[4, 34] / some.max() > 0.9
    assert some[16, 5] / some.max() < 0.2


def test_a_small_box_is_hotter_than_a_large_one_and_boxes_add_up() -> None:
    boxes = np.array([[0, 0, 0.5, 1], [0.75, 0, 1, 1], [0.75, 0, 1, 1]])
    heat = heat_of(np.array([0.5, 0.25, 0.25]), boxes, (80, 40))
    assert heat[20, 70] == pytest.approx(2 * heat[20, 10], rel=0.1)
    thin = heat_of(np.array([1.0]), np.array([[1.0, 1.0, 1.0, 1.0]]), (80, 40))  # a box without an inside, at the edge
    assert np.isfinite(thin).all()
    assert thin.argmax() == thin.size - 1 or thin[-1, -1] == pytest.approx(thin.max(), rel=0.1)


def test_the_picture_glows_where_it_is_hot_and_is_dim_where_it_is_cold() -> None:
    grey = np.full((20, 40, 3), 100, np.uint8)
    lit = glow(grey, heat_of(np.array([0.0, 1.0, 0, 0]), QUARTERS, (40, 20)))
    assert lit[4, 32, 0] > 170 > lit[4, 32, 2]
    assert lit[16, 6].tolist() == [45, 45, 45]
    shown = spotlight(grey, heat_of(np.array([0.0, 1.0, 0, 0]), QUARTERS, (40, 20)))
    assert shown[4, 32, 0] > 95
    assert shown[16, 6, 0] == 15
    assert HOT == 4.0


def test_the_most_salient_thing_stays_as_it_is_and_the_rest_fades() -> None:
    seen = veil(np.zeros((10, 10, 3), np.uint8), np.array([0.8, 0.2]), QUARTERS[[0, 3]])
    assert seen[2, 2, 0] == 0
    assert seen[7, 7, 0] == round(255 * VEIL * (1 - 0.25))
    assert seen[2, 7, 0] == round(255 * VEIL)


def test_cells_glow_things_stay_and_a_look_at_everything_paints_nothing() -> None:
    grey, made = np.full((20, 40, 3), 100, np.uint8), segment()
    head = made.heads["grid"]
    assert (paint(grey, head, peak(made, "grid", 0)) == grey).all()
    assert (paint(grey, head, peak(made, "grid", 1))[4, 32] != 100).any()
    things = HeadAttention(head.times, np.broadcast_to(QUARTERS, (3, 4, 4)), head.weights)
    assert paint(grey, things, peak(made, "grid", 1))[4, 32].tolist() == [100] * 3
    assert paint(grey, things, peak(made, "grid", 1))[16, 6, 0] > 200


# --- the page --------------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Every element with its attributes, and the text of scripts and of the rest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = attributes, before + data
        elif self.cdata_elem is None:
            self.text += data


def test_the_page_stands_alone_and_only_its_own_script_may_run(clip: Path, tmp_path: Path) -> None:
    page = Reader(make_page(explanation(), clip, tmp_path / "page.html"))
    assert not [one for _, one in page.elements if "src" in one or "href" in one]
    policy = next(one["content"] for tag, one in page.elements if tag == "meta" and "http-equiv" in one)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    (run,) = [text for attributes, text in page.scripts if "type" not in attributes]
    assert base64.b64encode(hashlib.sha256(run.encode()).digest()).decode() in policy
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", run)
    assert "innerHTML" not in run
    video = next(text for attributes, text in page.scripts if attributes.get("id") == "video")
    assert base64.b64decode(video) == clip.read_bytes()
    data = json.loads(next(text for attributes, text in page.scripts if attributes.get("id") == "explanation"))
    assert data["segments"][0]["texts"]["grid"][2] == "most at 0.8 s (75%), lower left"
    assert data["segments"][0]["peaks"]["grid"][1:] == [0.4, 0.8]
    assert len(data["frames"]) == len(data["seconds"]) > 3
    assert all(frame.startswith("data:image/jpeg;base64,") for frame in data["frames"])


def test_words_are_buttons_and_the_page_says_the_same_as_text(clip: Path, tmp_path: Path) -> None:
    page = Reader(make_page(explanation(), clip, tmp_path / "page.html"))
    words = [one for tag, one in page.elements if tag == "button" and one.get("class") == "word"]
    assert len(words) == 3
    assert all("aria-pressed" in one for one in words)
    assert "most at 0.8 s (75%), lower left" in page.text
    assert ("html", {"lang": "en", "class": "no-script"}) in page.elements
    assert any(one.get("aria-live") == "polite" for _, one in page.elements)
    assert any(one.get("name") == "viewport" for _, one in page.elements)
    labelled = [one for tag, one in page.elements if tag == "input"]
    assert all("aria-label" in one or one.get("type") == "checkbox" for one in labelled)


def test_no_word_no_name_and_no_title_becomes_markup(clip: Path, tmp_path: Path) -> None:
    bars = (Bars(HOSTILE, (HOSTILE,), np.ones((1, 1))),)
    head = HeadAttention(np.array([0.1, 0.5]), QUARTERS, np.full((1, 2, 4), 1 / 8))
    spoken = (ExplainedWord(HOSTILE, 0.5),)
    bad = SegmentExplanation(0.0, 1.0, HOSTILE, 0.5, spoken, {HOSTILE: head}, (Mark("key_frame", 0.1),), bars)
    for segments in ((bad,), (bad, bad)):
        text = make_page(explanation(*segments, video=HOSTILE, captioner=HOSTILE), clip, tmp_path / "page.html")
        page = Reader(text)
        plain = Reader(make_page(explanation(*(segment() for _ in segments)), clip, tmp_path / "page.html"))
        assert len(page.scripts) == len(plain.scripts) == 3
        assert not [tag for tag, one in page.elements if tag == "img" and "src" in one]
        assert not [one for _, one in page.elements if any(key.startswith("on") for key in one)]
        held = next(text for attributes, text in page.scripts if attributes.get("id") == "explanation")
        assert not set("<>&") & set(held)  # nothing that could end the element, or begin another
        data = json.loads(held)
        assert data["segments"][0]["words"][0]["word"] == HOSTILE
        assert data["video"] == HOSTILE


def test_a_small_video_is_embedded_a_large_one_linked_and_an_odd_one_shown_by_frames(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "videos" / "100% #1 <dog>.mp4"
    named.parent.mkdir()
    shutil.copy(clip, named)
    assert browser_type(named) == "video/mp4"
    assert played(named, tmp_path / "page.html").content == clip.read_bytes()
    monkeypatch.setattr("watchword.explain.page.EMBEDDED_BYTES", 10)
    assert played(named, tmp_path / "pages" / "page.html").link == "../videos/100%25%20%231%20%3Cdog%3E.mp4"
    odd = write_video(tmp_path / "odd.avi", [numbered(index) for index in range(8)], codec="mpeg4")
    assert browser_type(odd) == ""
    assert played(odd, tmp_path / "page.html") == played(odd, tmp_path).__class__()
    ten_bits = write_video(tmp_path / "ten.mp4", [numbered(index) for index in range(8)], pixels="yuv420p10le")
    assert browser_type(ten_bits) == ""


def test_an_unsure_caption_is_called_a_guess(clip: Path, tmp_path: Path) -> None:
    text = make_page(explanation(segment(), segment(confidence=0.21)), clip, tmp_path / "page.html")
    assert "<small>confidence 0.70</small>" in text
    assert "<small>unsure, 0.21: this is a guess</small>" in text


def test_a_video_of_which_nothing_could_be_said_has_a_page(clip: Path, tmp_path: Path) -> None:
    assert "No caption of this video" in make_page(
        Explanation("clip.mp4", 1.0, "light", ()), clip, tmp_path / "page.html"
    )
    assert "dog" in make_page(explanation(segment(heads={})), clip, tmp_path / "page.html")  # words without attention


# --- pictures and videos ----------------------------------------------------------------------------------------------


def test_the_nearest_picture_is_found(clip: Path) -> None:
    pictures = FrameSet.read(clip, [0.8, 0.0, 0.4], 48)
    assert pictures.seconds.tolist() == [0.0, 0.4, 0.8]
    assert [pictures.number_at(seconds) for seconds in (-1, 0.1, 0.3, 0.5, 0.7, 9)] == [0, 0, 1, 1, 2, 2]
    assert pictures.size == (64, 48)


def test_the_sheet_shows_marks_bars_and_attention(clip: Path) -> None:
    bars = (Bars("layers", ("low", "deep"), np.array([[0, 0], [0.25, 0.75], [1, 0]])),)
    marks = (Mark("key_frame", 0.4), Mark("first_key_frame", 0.52), Mark("chosen_frame", 0.8, 2))
    plain = np.asarray(draw_figure(explanation(), clip))
    full = np.asarray(draw_figure(explanation(segment(bars=bars, marks=marks)), clip))
    for colour, name in (((205, 40, 40), "key frame"), ((240, 190, 20), "first key frame")):
        assert (full == colour).all(-1).sum() > 200 > (plain == colour).all(-1).sum(), name
    assert (full == (42, 110, 164)).all(-1).sum() > (plain == (42, 110, 164)).all(-1).sum() + 500
    two = draw_figure(explanation(segment(), segment()), clip)
    assert two.height > 1.8 * plain.shape[0]
    assert draw_figure(explanation(segment(heads={})), clip).height > 100  # a model without attention


def test_the_video_plays_with_its_sound_and_then_word_by_word(clip: Path, tmp_path: Path) -> None:
    write_explained(explanation(), clip, tmp_path / "seen.mp4")
    with av.open(str(tmp_path / "seen.mp4")) as container:
        assert {stream.type for stream in container.streams} == {"video", "audio"}
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 25 + 3 * 30  # a second of video, three words of 1.2 s, 25 frames a second
    height = 360
    assert frames[0].shape[0] > height
    held = frames[25 + 45]  # "dog" looks at the upper right
    right, left = held[60:120, 300:420], held[240:300, 60:180]
    assert int(right[..., 0].mean()) > int(left[..., 0].mean()) + 60
    bright = [frame[height:, :, 0].astype(int) - frame[height:, :, 2] > 80 for frame in (frames[25], frames[25 + 45])]
    assert (bright[0] != bright[1]).any()  # another word is lit


def test_a_timeline_of_segments_and_a_silent_video_become_videos_too(tmp_path: Path) -> None:
    silent = write_video(tmp_path / "silent.mp4", [numbered(index) for index in range(12)])
    write_explained(
        explanation(segment(end=0.2), segment("a much longer caption than the other one", heads={}, start=0.2)),
        silent,
        tmp_path / "seen.mp4",
    )
    with av.open(str(tmp_path / "seen.mp4")) as container:
        assert [stream.type for stream in container.streams] == ["video"]
        assert len(list(container.decode(video=0))) == 12  # no word by word of several segments


# --- what models tell ------------------------------------------------------------------------------------------------


def streams_of(widths: dict[str, int], places: dict[str, int]) -> dict[str, Stream]:
    torch.manual_seed(0)
    found = {}
    for name, width in widths.items():
        number = places.get(name, 1)
        values = torch.randn(1, 4, number, width)
        mask = torch.ones(1, 4, number, dtype=torch.bool)
        times = torch.arange(4.0).unsqueeze(0) / 2
        found[name] = Stream(values, mask, times, torch.zeros(1, 4, number, 4))
    return found


CAPTION = torch.tensor([[[4, 5, EOS]]])
TINY = {"hidden_size": 8, "embedding_size": 8, "attention_size": 4}


def test_models_tell_of_key_frames_chosen_frames_layers_and_ways_of_looking() -> None:
    torch.manual_seed(0)
    grid = {"grid": 6}
    refocus = build_model({"name": "refocus", **TINY}, grid, 9).eval()
    found = diagnose(refocus, streams_of(grid, {"grid": 4}), CAPTION)
    marks, bars = found.marks, found.bars
    assert [mark.kind for mark in marks] == ["first_key_frame", "key_frame"]
    assert marks[0].seconds == 1.0
    assert bars == ()
    key = int(refocus.encode_passes(streams_of(grid, {"grid": 4}))[3])  # type: ignore[operator]
    assert marks[1].seconds == key / 2
    once = build_model({"name": "refocus", "variant": "kbigru", **TINY}, grid, 9).eval()
    assert diagnose(once, streams_of(grid, {"grid": 4}), CAPTION) == Diagnostics()  # every video's middle tells of none

    widths = {"appearance": 6, "motion": 5, "regions": 7}
    local = build_model({"name": "global2local", "feature_size": 8, "aligned_size": 4, **TINY}, widths, 9).eval()
    marks = diagnose(local, streams_of(widths, {"regions": 3}), CAPTION).marks
    assert {mark.kind for mark in marks} == {"chosen_frame"}
    assert [mark.word for mark in marks] == [0, 0, 1, 1, 2, 2]  # two frames a word

    layers = {"low": 3, "deep": 5, "top": 6}
    deep = build_model({"name": "dual_afr", **TINY}, layers, 9).eval()
    (bars_of_layers,) = diagnose(deep, streams_of(layers, {"low": 4, "deep": 4}), CAPTION).bars
    assert bars_of_layers.names == ("low", "deep")
    assert np.allclose(bars_of_layers.weights.sum(-1), [0, 1, 1])  # the first word looks at no layer

    stats = build_model({"name": "stats", "feature_size": 6, **TINY}, grid, 9).eval()
    (ways,) = diagnose(stats, streams_of(grid, {"grid": 4}), CAPTION).bars
    assert ways.names == ("ST", "TS")
    assert np.allclose(ways.weights.sum(-1), 1)
    plain = build_model({"name": "soft_attention", **TINY}, grid, 9).eval()
    assert diagnose(plain, streams_of(grid, {"grid": 4}), CAPTION) == Diagnostics()


def test_a_description_carries_its_explanation(captioner: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.explain.attention.UNIFORM", 1.0)  # the attention of random weights is flat
    description = Captioner.load(captioner).describe(clip)
    made = Explanation.of(description)
    jsonschema.validate(json.loads(json.dumps(made.values())), SCHEMA)
    (only,) = made.segments
    assert only.caption == description.caption
    head = only.heads["appearance"]
    assert head.weights.shape == (len(only.words), 6, 1)
    assert head.times.tolist() == description.segments[0].geometry["appearance"].times.tolist()
    for number, word in enumerate(description.segments[0].best.words):
        assert peak(only, "appearance", number).seconds == pytest.approx(word.seconds["appearance"])


# --- the command -----------------------------------------------------------------------------------------------------


def run(*words: object, code: int = 0) -> str:
    done = RUN.invoke(app, [str(word) for word in words])
    if code:
        assert isinstance(done.exception, WatchwordError), done.output
        return str(done.exception)
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    return done.output


@pytest.mark.parametrize("form", ["html", "png", "mp4", "json"])
def test_a_video_is_explained_in_every_format(form: str, captioner: Path, clip: Path, tmp_path: Path) -> None:
    said = run("explain", captioner, clip, "--output", tmp_path / f"new/seen.{form}")
    made = tmp_path / "new" / f"seen.{form}"
    assert said.splitlines()[-1].endswith(made.name)
    if form == "json":
        jsonschema.validate(json.loads(made.read_text()), SCHEMA)
        (told,) = json.loads(made.read_text())["segments"]
        assert f"{told['caption']}{certainty(told['confidence'])}" in said.splitlines()
    elif form == "png":
        assert Image.open(made).width > 1000
    elif form == "mp4":
        assert browser_type(made) == "video/mp4"
    else:
        assert "<!doctype html>" in made.read_text()
    assert [path.name for path in made.parent.iterdir()] == [made.name]  # nothing half-made stays


def test_a_folder_gets_a_file_called_as_the_video(captioner: Path, clip: Path, tmp_path: Path) -> None:
    run("explain", captioner, clip, "--output", tmp_path / "seen", "--format", "json")
    run("explain", captioner, clip, "--output", tmp_path / "seen")
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["clip.html", "clip.json"]


def test_videos_of_one_name_in_two_folders_have_pages_of_their_own(
    captioner: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in ("day1", "day2"):
        (tmp_path / day).mkdir()
        shutil.copy(clip, tmp_path / day / "IMG_1.mp4")
        run("explain", f"{day}/IMG_1.mp4", "--model", captioner, "--format", "json")
    found = {path.relative_to(tmp_path / "explained").as_posix() for path in (tmp_path / "explained").rglob("*.json")}
    assert found == {"day1/IMG_1.json", "day2/IMG_1.json"}


def test_describe_explains_too(captioner: Path, clip: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<b onmouseover=alert(1)>.mp4"
    shutil.copy(clip, hostile)
    run("describe", clip, hostile, "--model", captioner, "--explain", tmp_path / "seen")
    pages = sorted((tmp_path / "seen").iterdir())
    assert [page.name for page in pages] == ["<b onmouseover=alert(1)>.html", "clip.html"]
    assert "<b onmouseover" not in pages[0].read_text()


def test_mistakes_are_one_clear_line(captioner: Path, clip: Path, tmp_path: Path) -> None:
    assert "there is no file nowhere" in run("explain", captioner, "nowhere", "--output", tmp_path / "a.html", code=1)
    assert "unknown suffix of --output" in run("explain", captioner, clip, "--output", tmp_path / "a.doc", code=1)
    assert "unknown attention" in run("explain", captioner, clip, "--stream", "sound", code=1)
    assert not list(tmp_path.iterdir())


def test_a_run_on_drawn_features_is_explained_from_its_store(tmp_path: Path) -> None:
    from watchword.config import Recipe
    from watchword.training import loop

    run("research", "shapes", tmp_path / "data", "--count", "20", "--streams", "appearance,regions", "--write-videos")
    data = {
        "captions": tmp_path / "data" / "captions.jsonl",
        "store": tmp_path / "data" / "store",
        "streams": ("appearance", "regions"),
        "min_count": 1,
    }
    model = {"name": "hierarchical", **TINY}
    recipe = Recipe.read({"data": data, "model": model, "phases": [{"epochs": 1, "learning_rate": 0.01}]}, "test")
    trained = loop.train(recipe, tmp_path / "run")
    clips = [json.loads(line) for line in (tmp_path / "data" / "captions.jsonl").read_text().splitlines()]
    video, other = (one["video"] for one in clips[:2])
    run("explain", trained.folder, video, "--output", tmp_path / "seen.json")
    made = Explanation.read(json.loads((tmp_path / "seen.json").read_text()))
    assert made.segments[0].heads["regions"].boxes.ndim == 3
    run("explain", trained.folder, video, "--output", tmp_path / "seen.png", "--stream", "appearance")
    assert "no video file" in run(
        "explain", trained.folder, video, "--videos", tmp_path / "run", "--format", "png", code=1
    )
    assert "no such video" in run("explain", trained.folder, "vide", "--format", "png", code=1)
    video = next((tmp_path / "data").rglob(f"{other}.mp4"))
    moved = shutil.copy(video, tmp_path / "elsewhere.mp4")
    assert "or name a video of its store" in run("explain", trained.folder, moved, code=1)
    run("explain", trained.folder, other, "--videos", moved, "--output", tmp_path / "pages")
    assert (tmp_path / "pages" / f"{other}.html").exists()
