"""Drawn videos: what is said is what is seen, and the truth about them is true."""

import csv
import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from watchword.cli.main import app
from watchword.data.annotations import read_annotations
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.research.shapes import (
    LEXICON,
    RARE_WORDS,
    STREAMS,
    DrawnVideo,
    ShapesConfig,
    Thing,
    draw_video,
    draw_videos,
    grid_boxes,
    kind_of,
    meaning,
    play_backwards,
    read_truth,
    split_of,
    streams_of,
    write_shapes,
)
from watchword.research.shapes.drawing import Track, paint, paint_scene

ORDERED = ("motion", "movement", "moving_regions")
ORDERLESS = tuple(name for name in STREAMS if name not in ORDERED)


@pytest.fixture(scope="module")
def videos() -> list[DrawnVideo]:
    return list(draw_videos(ShapesConfig(count=300)))


def first_with(videos: list[DrawnVideo], action: str) -> DrawnVideo:
    return next(video for video in videos if video.truth.facts.action == action)


def lone(action: str, **options: object) -> DrawnVideo:
    """A video without distractors: all that is not background is the subject or what it meets."""
    return draw_video(ShapesConfig(distractors=0, actions=(action,), **options), 1)  # type: ignore[arg-type]


def away_from_background(video: DrawnVideo) -> np.ndarray:
    """(F, H, W): pixels that no noise explains."""
    background = np.median(video.pictures.astype(int), axis=(0, 2), keepdims=True)
    return np.abs(video.pictures - background).max(-1) > 12


# --- the same seed, the same videos -----------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_bytes_and_another_seed_others() -> None:
    config = ShapesConfig(count=3)
    for first, again in zip(draw_videos(config), draw_videos(config), strict=True):
        assert first.pictures.tobytes() == again.pictures.tobytes()
        assert (first.captions, first.truth.facts, first.truth.event) == (
            again.captions,
            again.truth.facts,
            again.truth.event,
        )
        for name, arrays in streams_of(first).items():
            assert arrays.values.tobytes() == streams_of(again)[name].values.tobytes()
    other = draw_video(ShapesConfig(count=3, seed=1), 0)
    assert other.pictures.tobytes() != draw_video(config, 0).pictures.tobytes()


def test_a_video_depends_on_its_number_alone_and_keeps_its_split_when_more_are_drawn() -> None:
    few, many = list(draw_videos(ShapesConfig(count=4))), draw_video(ShapesConfig(count=5000), 3)
    assert few[3].pictures.tobytes() == many.pictures.tobytes()
    assert few[3].split == many.split == split_of(3)
    assert Counter(split_of(index) for index in range(100)) == {"train": 70, "val": 10, "test": 20}


def test_no_two_videos_are_alike(videos: list[DrawnVideo]) -> None:
    assert len({video.pictures.tobytes() for video in videos}) == len(videos)


# --- captions --------------------------------------------------------------------------------------------------------


def test_every_caption_read_back_says_what_the_truth_says(videos: list[DrawnVideo]) -> None:
    for video in videos:
        facts = video.truth.facts
        true = dataclasses.asdict(facts.subject) | {
            "action": facts.action,
            "scene": facts.scene,
            "direction": facts.direction,
            "after": facts.after,
            "second": facts.second and facts.second.object,
            "second_colour": facts.second and facts.second.colour,
        }
        for caption in video.captions:
            said = meaning(caption)
            assert all(true[kind] == value for kind, value in said.items()), caption
            needed = {"object", "colour", "action"} | {
                kind for kind in ("direction", "after", "second", "second_colour") if true[kind]
            }
            assert needed <= said.keys(), caption


def test_a_sentence_is_read_word_by_word() -> None:
    assert meaning("there is a small spotted red disc that changes from red to blue at night") == {
        "size": "small",
        "texture": "dotted",
        "colour": "red",
        "object": "circle",
        "action": "turns",
        "after": "blue",
        "scene": "night",
    }
    assert meaning("a pink star bumps into the green box") == {
        "colour": "pink",
        "object": "star",
        "action": "bounces",
        "second": "square",
        "second_colour": "green",
    }
    assert meaning("a dog") == {}


def test_a_video_has_several_wordings_the_first_with_all_details_the_second_with_none(videos: list[DrawnVideo]) -> None:
    assert np.mean([len(set(video.captions)) for video in videos]) > 4.5
    for video in videos:
        full, short = meaning(video.captions[0]), meaning(video.captions[1])
        assert not {"size", "texture", "scene"} & short.keys()
        assert ("texture" in full) == (video.truth.facts.subject.texture != "plain")
        assert ("scene" in full) == (video.truth.facts.scene != "studio")


def test_every_word_has_one_kind() -> None:
    assert [kind_of(word) for word in ["the", "striped", "red", "ball", "slides", "upwards", "at", "night"]] == [
        "function",
        "texture",
        "colour",
        "object",
        "action",
        "direction",
        "function",
        "scene",
    ]
    for values in LEXICON.values():
        assert sum(entry.share for entry in values.values()) == pytest.approx(1)


def test_words_have_a_long_tail(videos: list[DrawnVideo]) -> None:
    objects = Counter(video.truth.facts.subject.object for video in videos)
    assert objects["circle"] > 60
    assert 0 < objects["cross"] + objects["crescent"] < 30
    in_videos = Counter(word for video in videos for word in {word for text in video.captions for word in text.split()})
    assert {"crescent", "cross", "pink", "turquoise", "spins", "sunset", "checked"} <= RARE_WORDS
    assert not {"red", "circle", "left", "moves", "night"} & RARE_WORDS
    rare = {word: in_videos[word] for word in RARE_WORDS if in_videos[word]}
    assert len(rare) > 10
    assert max(rare.values()) < 0.1 * len(videos)
    for video in videos:
        assert set(video.truth.rare_words) == {word for text in video.captions for word in text.split()} & RARE_WORDS


# --- what is seen ----------------------------------------------------------------------------------------------------


def test_the_subject_is_visible_while_its_event_happens(videos: list[DrawnVideo]) -> None:
    for video in videos:
        start, end = video.truth.event
        assert 0 <= start < end <= len(video.times)
        assert video.truth.visible[start:end, video.truth.subject].all()
        if video.truth.second is not None:
            assert video.truth.visible[:, video.truth.second].all()


def test_events_begin_anywhere_or_fill_the_video(videos: list[DrawnVideo]) -> None:
    assert {video.truth.event[0] for video in videos} >= set(range(9))
    assert {video.truth.event[1] for video in videos} >= set(range(8, 17))
    assert lone("moves", event="whole").truth.event == (0, 16)
    short = [draw_video(ShapesConfig(frames=32, longest_event=0.25), index).truth.event for index in range(20)]
    assert {end - start for start, end in short} <= {5, 6, 7, 8}


@pytest.mark.parametrize("action", LEXICON["action"])
def test_boxes_hold_all_pixels_of_the_objects_and_are_tight(action: str) -> None:
    video = lone(action)
    size, objects = video.pictures.shape[1], [video.truth.subject, video.truth.second]
    inside = np.zeros(video.pictures.shape[:3], bool)
    for frame, boxes in enumerate(video.truth.boxes):
        for slot in objects:
            if slot is not None and video.truth.visible[frame, slot]:
                x0, y0, x1, y1 = np.round(boxes[slot] * size).astype(int)
                inside[frame, y0:y1, x0:x1] = True
    painted = away_from_background(video)
    assert painted.any()
    assert not (painted & ~inside).any()
    assert painted.sum() > 0.3 * inside.sum() or action in {"appears", "vanishes", "blinks"}


def test_a_video_shows_its_event_and_nothing_else_happens_outside_it() -> None:
    for action in ("moves", "grows", "turns", "jumps", "bounces", "spins", "appears"):
        video = lone(action, frames=24)
        start, end = video.truth.event
        still = np.abs(np.diff(video.pictures.astype(int), axis=0)).max((1, 2, 3)) <= 6  # noise of two frames
        assert not still[start : end - 1].all(), action
        assert still[: max(start - 1, 0)].all(), action
        assert still[end:].all(), action


def centre(video: DrawnVideo, frame: int) -> np.ndarray:
    box = video.truth.boxes[frame, video.truth.subject]
    return (box[:2] + box[2:]) / 2


def test_the_truth_moves_where_the_words_say(videos: list[DrawnVideo]) -> None:
    ways = {"left": (0, -1), "right": (0, 1), "up": (1, -1), "down": (1, 1)}
    seen = set()
    for video in videos:
        facts, (start, end) = video.truth.facts, video.truth.event
        extent = video.truth.boxes[:, video.truth.subject, 2] - video.truth.boxes[:, video.truth.subject, 0]
        if facts.direction:
            axis, sign = ways[facts.direction]
            way = centre(video, end - 1) - centre(video, start)
            assert sign * way[axis] > 0.3
            assert abs(way[1 - axis]) < 0.05
        elif facts.action == "grows":
            assert extent[end - 1] > 1.7 * extent[start]
        elif facts.action == "shrinks":
            assert extent[start] > 1.7 * extent[end - 1]
        seen |= {facts.direction, facts.action}
    assert seen >= {"left", "right", "up", "down", "grows", "shrinks"}


def test_distractors_look_different_and_only_sway(videos: list[DrawnVideo]) -> None:
    for video in videos:
        truth = video.truth
        assert len(truth.distractors) == 2
        looks = [(thing.object, thing.colour) for thing in truth.things if isinstance(thing, Thing)]
        assert len(set(looks)) == len(looks)
        for slot in truth.distractors:
            middle = (truth.boxes[:, slot, :2] + truth.boxes[:, slot, 2:]) / 2
            assert np.ptp(middle, axis=0).max() < 0.07
            assert truth.visible[:, slot].all()


def test_a_hidden_subject_is_out_of_sight_outside_its_event() -> None:
    video = lone("moves", outside="hidden")
    start, end = video.truth.event
    assert video.truth.visible[:, video.truth.subject].tolist() == [start <= frame < end for frame in range(16)]
    assert not away_from_background(video)[[frame for frame in range(16) if not start <= frame < end]].any()


# --- the order of time -----------------------------------------------------------------------------------------------


def test_no_mean_over_time_tells_a_video_from_itself_played_backwards_but_the_captions_do(
    videos: list[DrawnVideo],
) -> None:
    for action in ("moves", "appears", "vanishes", "grows", "shrinks", "turns"):
        video = first_with(videos, action)
        back = play_backwards(video)
        ours, theirs = streams_of(video), streams_of(back)
        for name in ORDERLESS:
            np.testing.assert_allclose(ours[name].values.mean(0), theirs[name].values.mean(0), atol=1e-5)
            np.testing.assert_array_equal(ours[name].values, theirs[name].values[::-1])
        assert video.truth.order_words
        assert not set(video.captions) & set(back.captions)
        if action != "turns":  # red to blue and blue to red have the same words in another order
            assert not set(video.truth.order_words) & {word for text in back.captions for word in text.split()}
        assert np.abs(ours["motion"].values.mean(0) - theirs["motion"].values.mean(0)).max() > 0.01
        regions = (streams["moving_regions"].values[:, video.truth.subject].mean(0) for streams in (ours, theirs))
        assert np.abs(np.subtract(*regions)).max() > 0.01


def test_playing_a_video_backwards_twice_gives_it_back(videos: list[DrawnVideo]) -> None:
    for video in videos[:20]:
        twice = play_backwards(play_backwards(video))
        np.testing.assert_array_equal(twice.pictures, video.pictures)
        np.testing.assert_array_equal(twice.truth.boxes, video.truth.boxes)
        assert (twice.truth.facts, twice.truth.event, twice.truth.things) == (
            video.truth.facts,
            video.truth.event,
            video.truth.things,
        )


def test_bouncing_jumping_spinning_and_blinking_need_no_order(videos: list[DrawnVideo]) -> None:
    for video in videos:
        symmetric = video.truth.facts.action in {"bounces", "jumps", "spins", "blinks"}
        assert video.truth.facts.depends_on_order is not symmetric
        assert bool(video.truth.order_words) is not symmetric


# --- streams ---------------------------------------------------------------------------------------------------------


def test_streams_have_their_shapes_times_and_boxes() -> None:
    video = draw_video(ShapesConfig(regions=6, frames=20), 5)
    streams = streams_of(video)
    places = {name: arrays.values.shape[:2] for name, arrays in streams.items()}
    assert places == {
        "appearance": (20, 1),
        "appearance_grid": (20, 16),
        "regions": (20, 6),
        "motion": (20, 1),
        "scene": (20, 1),
        "movement": (20, 1),
        "moving_regions": (20, 6),
        "layer1": (20, 256),
        "layer2": (20, 64),
        "layer3": (20, 16),
    }
    for arrays in streams.values():
        assert arrays.values.dtype == np.float32
        assert np.isfinite(arrays.values).all()
        assert arrays.values.shape[2] <= 128
        assert arrays.boxes.shape[-2:] == (arrays.values.shape[1], 4)
    np.testing.assert_allclose(streams["regions"].boxes, video.truth.boxes, atol=1e-6)
    np.testing.assert_array_equal(streams["regions"].mask, video.truth.visible)
    assert grid_boxes(4)[5].tolist() == [0.25, 0.25, 0.5, 0.5]


def test_streams_come_from_the_pixels_and_not_from_the_truth(videos: list[DrawnVideo]) -> None:
    video, other = videos[0], videos[1]
    swapped = dataclasses.replace(video, truth=other.truth, captions=other.captions)
    for name, arrays in streams_of(video).items():
        if name not in ("regions", "moving_regions"):
            np.testing.assert_array_equal(arrays.values, streams_of(swapped)[name].values)


def test_a_region_shows_the_colour_of_its_own_object_in_every_frame(videos: list[DrawnVideo]) -> None:
    colours = ["red", "orange", "yellow", "green", "turquoise", "blue", "purple", "pink"]
    right = []
    for video in videos[:60]:
        if video.truth.facts.action != "turns":
            values = streams_of(video, ("regions",))["regions"].values[..., : len(colours)]  # (F, K, 8)
            for slot, thing in enumerate(video.truth.things):
                if thing is not None:
                    seen = values[video.truth.visible[:, slot], slot].argmax(-1)
                    right += (seen == colours.index(thing.colour)).tolist()
    assert np.mean(right) > 0.97


def test_scene_and_movement_do_not_know_colours_and_shapes() -> None:
    video = lone("moves")
    red, blue = (dataclasses.replace(video, pictures=video.pictures[..., order]) for order in ([0, 1, 2], [2, 1, 0]))
    known = streams_of(red, ("motion", "movement", "scene", "appearance"))
    other = streams_of(blue, ("motion", "movement", "scene", "appearance"))

    def change(name: str) -> float:
        return float(np.linalg.norm(known[name].values - other[name].values) / np.linalg.norm(known[name].values))

    assert change("motion") > 2 * change("movement")
    for frame in streams_of(video, ("scene",))["scene"].values:  # whatever moves across it
        np.testing.assert_array_equal(frame, streams_of(video, ("scene",))["scene"].values[0])


def test_a_moving_region_tells_in_one_frame_who_acts_and_a_region_does_not(videos: list[DrawnVideo]) -> None:
    """Of the objects in a frame before the middle of the event, the one whose last numbers are largest."""
    right: dict[str, list[bool]] = {"regions": [], "moving_regions": []}
    for video in videos[:100]:
        truth, middle = video.truth, sum(video.truth.event) // 2 - 1
        objects = [slot for slot, thing in enumerate(truth.things) if thing is not None and truth.visible[middle, slot]]
        for name, said in right.items():
            values = streams_of(video, (name,))[name].values[middle, objects]
            said.append(objects[int(values[:, -6:].sum(-1).argmax())] == truth.subject)
    assert np.mean(right["moving_regions"]) > 0.8
    assert np.mean(right["regions"]) < 0.6


def test_the_slot_of_a_region_does_not_betray_the_subject(videos: list[DrawnVideo]) -> None:
    slots = Counter(video.truth.subject for video in videos)
    assert set(slots) == set(range(8))
    assert max(slots.values()) < 60  # of 300 in 8 slots: expected 37.5, five standard deviations above


def still(texture: str, scene: str) -> dict[str, np.ndarray]:
    """The layers of a video that shows one red circle at rest."""
    canvas = np.zeros((8, 64 + 40, 64 + 40, 3), np.float32)
    canvas[:, 20:-20, 20:-20] = paint_scene(scene, 64, np.random.default_rng(0))
    rest = np.zeros(8)
    thing = Thing("circle", "red", texture, "big")
    paint(canvas, 20, Track(thing, np.full((8, 2), 0.5), np.full(8, 0.15), np.ones(8), rest, None, rest))
    pictures = canvas[:, 20:-20, 20:-20].astype(np.uint8)
    video = dataclasses.replace(draw_video(ShapesConfig(frames=8), 0), pictures=pictures)
    return {name: streams_of(video, (name,))[name].values for name in ("layer1", "layer2", "layer3")}


def test_the_fine_layer_sees_texture_and_the_coarse_layer_the_scene() -> None:
    plain, striped, snowy = still("plain", "night"), still("striped", "night"), still("plain", "snow")

    def change(other: dict[str, np.ndarray], layer: str) -> float:
        return float(np.linalg.norm(other[layer] - plain[layer]) / np.linalg.norm(plain[layer]))

    assert change(striped, "layer1") > 1
    assert change(striped, "layer3") < 0.15
    assert change(snowy, "layer3") > 3
    assert change(snowy, "layer1") < 1


# --- on disk ---------------------------------------------------------------------------------------------------------


def test_a_written_data_set_is_read_back_as_it_was_drawn(tmp_path: Path) -> None:
    config = ShapesConfig(count=10)
    seen: list[str] = []
    write_shapes(tmp_path, config, ("appearance", "regions"), lambda video: seen.append(video.video))
    drawn = {video.video: video for video in draw_videos(config)}
    assert seen == list(drawn)
    clips = read_annotations(tmp_path)
    assert {clip.video: (clip.split, clip.captions) for clip in clips} == {
        video.video: (video.split, video.captions) for video in drawn.values()
    }
    truths = read_truth(tmp_path / "truth.jsonl")
    for name, video in drawn.items():
        truth = truths[name]
        np.testing.assert_allclose(truth.boxes, video.truth.boxes, atol=1e-4)
        np.testing.assert_array_equal(truth.visible, video.truth.visible)
        for field in dataclasses.fields(truth):
            if field.name not in ("boxes", "visible"):
                assert getattr(truth, field.name) == getattr(video.truth, field.name)
    store = Store(tmp_path / "store")
    assert sorted(store.streams()) == ["appearance", "regions"]
    np.testing.assert_array_equal(
        store.read("shapes000003", "regions").values, streams_of(drawn["shapes000003"])["regions"].values
    )


def test_videos_of_other_options_are_not_mixed_into_a_data_set(tmp_path: Path) -> None:
    write_shapes(tmp_path, ShapesConfig(count=2), ("motion",))
    write_shapes(tmp_path, ShapesConfig(count=3), ("motion", "appearance"))
    with pytest.raises(WatchwordError, match="choose another folder"):
        write_shapes(tmp_path, ShapesConfig(count=3, seed=1), ("regions",))
    assert len(read_truth(tmp_path / "truth.jsonl")) == 3


def test_the_command_writes_videos_captions_and_a_picture(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    sheet = tmp_path / "sheet.png"
    words = [
        "research",
        "shapes",
        str(tmp_path / "set"),
        "--count",
        "10",
        "--write-videos",
        "--sheet",
        str(sheet),
        "--streams",
        "motion",
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert sheet.read_bytes()[1:4] == b"PNG"
    video = draw_video(ShapesConfig(count=10), 4)
    with av.open(str(tmp_path / "set" / "videos" / f"{video.video}.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == 8
    assert np.abs(np.stack(frames).astype(int) - video.pictures).mean() < 8
    with (tmp_path / "set" / "captions.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["video"] == f"{video.video}.mp4"]
    assert [row["caption"] for row in rows] == list(video.captions)
    assert {clip.path for clip in read_annotations(tmp_path / "set" / "captions.csv")} == {
        tmp_path / "set" / "videos" / f"shapes{index:06d}.mp4" for index in range(10)
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"event": "anywere"}, "did you mean 'anywhere'"),
        ({"actions": ("move",)}, "did you mean 'moves'"),
        ({"size": 60}, "multiple of 16"),
        ({"frames": 4}, "8 or more"),
        ({"longest_event": 0.2}, "draw more frames"),
        ({"longest_event": 1.5}, "the video ends"),
        ({"distractors": 7}, "raise regions"),
        ({"count": 0}, "at least one"),
    ],
)
def test_an_impossible_wish_is_one_clear_line(options: dict[str, object], said: str) -> None:
    with pytest.raises(WatchwordError, match=said):
        ShapesConfig(**options)  # type: ignore[arg-type]


def test_a_stream_that_there_is_not_and_a_missing_truth_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(WatchwordError, match="did you mean 'appearance'"):
        streams_of(draw_video(ShapesConfig(), 0), ("apearance",))
    with pytest.raises(WatchwordError, match="watchword research shapes"):
        read_truth(tmp_path / "truth.jsonl")
