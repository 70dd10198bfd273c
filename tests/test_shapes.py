"""Drawn films: what is said is what is seen, and the truth about them is true."""

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
def films() -> list[DrawnVideo]:
    return list(draw_videos(ShapesConfig(count=300)))


def first_with(films: list[DrawnVideo], action: str) -> DrawnVideo:
    return next(film for film in films if film.truth.facts.action == action)


def lone(action: str, **options: object) -> DrawnVideo:
    """A film without distractors: all that is not background is the subject or what it meets."""
    return draw_video(ShapesConfig(distractors=0, actions=(action,), **options), 1)  # type: ignore[arg-type]


def away_from_background(film: DrawnVideo) -> np.ndarray:
    """(F, H, W): pixels that no noise explains."""
    background = np.median(film.pictures.astype(int), axis=(0, 2), keepdims=True)
    return np.abs(film.pictures - background).max(-1) > 12


# --- the same seed, the same films -----------------------------------------------------------------------------------


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


def test_a_film_depends_on_its_number_alone_and_keeps_its_split_when_more_are_drawn() -> None:
    few, many = list(draw_videos(ShapesConfig(count=4))), draw_video(ShapesConfig(count=5000), 3)
    assert few[3].pictures.tobytes() == many.pictures.tobytes()
    assert few[3].split == many.split == split_of(3)
    assert Counter(split_of(index) for index in range(100)) == {"train": 70, "val": 10, "test": 20}


def test_no_two_films_are_alike(films: list[DrawnVideo]) -> None:
    assert len({film.pictures.tobytes() for film in films}) == len(films)


# --- captions --------------------------------------------------------------------------------------------------------


def test_every_caption_read_back_says_what_the_truth_says(films: list[DrawnVideo]) -> None:
    for film in films:
        facts = film.truth.facts
        true = dataclasses.asdict(facts.subject) | {
            "action": facts.action,
            "scene": facts.scene,
            "direction": facts.direction,
            "after": facts.after,
            "second": facts.second and facts.second.object,
            "second_colour": facts.second and facts.second.colour,
        }
        for caption in film.captions:
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


def test_a_film_has_several_wordings_the_first_with_all_details_the_second_with_none(films: list[DrawnVideo]) -> None:
    assert np.mean([len(set(film.captions)) for film in films]) > 4.5
    for film in films:
        full, short = meaning(film.captions[0]), meaning(film.captions[1])
        assert not {"size", "texture", "scene"} & short.keys()
        assert ("texture" in full) == (film.truth.facts.subject.texture != "plain")
        assert ("scene" in full) == (film.truth.facts.scene != "studio")


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


def test_words_have_a_long_tail(films: list[DrawnVideo]) -> None:
    objects = Counter(film.truth.facts.subject.object for film in films)
    assert objects["circle"] > 60
    assert 0 < objects["cross"] + objects["crescent"] < 30
    in_films = Counter(word for film in films for word in {word for text in film.captions for word in text.split()})
    assert {"crescent", "cross", "pink", "turquoise", "spins", "sunset", "checked"} <= RARE_WORDS
    assert not {"red", "circle", "left", "moves", "night"} & RARE_WORDS
    rare = {word: in_films[word] for word in RARE_WORDS if in_films[word]}
    assert len(rare) > 10
    assert max(rare.values()) < 0.1 * len(films)
    for film in films:
        assert set(film.truth.rare_words) == {word for text in film.captions for word in text.split()} & RARE_WORDS


# --- what is seen ----------------------------------------------------------------------------------------------------


def test_the_subject_is_visible_while_its_event_happens(films: list[DrawnVideo]) -> None:
    for film in films:
        start, end = film.truth.event
        assert 0 <= start < end <= len(film.times)
        assert film.truth.visible[start:end, film.truth.subject].all()
        if film.truth.second is not None:
            assert film.truth.visible[:, film.truth.second].all()


def test_events_begin_anywhere_or_fill_the_film(films: list[DrawnVideo]) -> None:
    assert {film.truth.event[0] for film in films} >= set(range(9))
    assert {film.truth.event[1] for film in films} >= set(range(8, 17))
    assert lone("moves", event="whole").truth.event == (0, 16)
    short = [draw_video(ShapesConfig(frames=32, longest_event=0.25), index).truth.event for index in range(20)]
    assert {end - start for start, end in short} <= {5, 6, 7, 8}


@pytest.mark.parametrize("action", LEXICON["action"])
def test_boxes_hold_all_pixels_of_the_objects_and_are_tight(action: str) -> None:
    film = lone(action)
    size, objects = film.pictures.shape[1], [film.truth.subject, film.truth.second]
    inside = np.zeros(film.pictures.shape[:3], bool)
    for frame, boxes in enumerate(film.truth.boxes):
        for slot in objects:
            if slot is not None and film.truth.visible[frame, slot]:
                x0, y0, x1, y1 = np.round(boxes[slot] * size).astype(int)
                inside[frame, y0:y1, x0:x1] = True
    painted = away_from_background(film)
    assert painted.any()
    assert not (painted & ~inside).any()
    assert painted.sum() > 0.3 * inside.sum() or action in {"appears", "vanishes", "blinks"}


def test_a_film_shows_its_event_and_nothing_else_happens_outside_it() -> None:
    for action in ("moves", "grows", "turns", "jumps", "bounces", "spins", "appears"):
        film = lone(action, frames=24)
        start, end = film.truth.event
        still = np.abs(np.diff(film.pictures.astype(int), axis=0)).max((1, 2, 3)) <= 6  # noise of two frames
        assert not still[start : end - 1].all(), action
        assert still[: max(start - 1, 0)].all(), action
        assert still[end:].all(), action


def centre(film: DrawnVideo, frame: int) -> np.ndarray:
    box = film.truth.boxes[frame, film.truth.subject]
    return (box[:2] + box[2:]) / 2


def test_the_truth_moves_where_the_words_say(films: list[DrawnVideo]) -> None:
    ways = {"left": (0, -1), "right": (0, 1), "up": (1, -1), "down": (1, 1)}
    seen = set()
    for film in films:
        facts, (start, end) = film.truth.facts, film.truth.event
        extent = film.truth.boxes[:, film.truth.subject, 2] - film.truth.boxes[:, film.truth.subject, 0]
        if facts.direction:
            axis, sign = ways[facts.direction]
            way = centre(film, end - 1) - centre(film, start)
            assert sign * way[axis] > 0.3
            assert abs(way[1 - axis]) < 0.05
        elif facts.action == "grows":
            assert extent[end - 1] > 1.7 * extent[start]
        elif facts.action == "shrinks":
            assert extent[start] > 1.7 * extent[end - 1]
        seen |= {facts.direction, facts.action}
    assert seen >= {"left", "right", "up", "down", "grows", "shrinks"}


def test_distractors_look_different_and_only_sway(films: list[DrawnVideo]) -> None:
    for film in films:
        truth = film.truth
        assert len(truth.distractors) == 2
        looks = [(thing.object, thing.colour) for thing in truth.things if isinstance(thing, Thing)]
        assert len(set(looks)) == len(looks)
        for slot in truth.distractors:
            middle = (truth.boxes[:, slot, :2] + truth.boxes[:, slot, 2:]) / 2
            assert np.ptp(middle, axis=0).max() < 0.07
            assert truth.visible[:, slot].all()


def test_a_hidden_subject_is_out_of_sight_outside_its_event() -> None:
    film = lone("moves", outside="hidden")
    start, end = film.truth.event
    assert film.truth.visible[:, film.truth.subject].tolist() == [start <= frame < end for frame in range(16)]
    assert not away_from_background(film)[[frame for frame in range(16) if not start <= frame < end]].any()


# --- the order of time -----------------------------------------------------------------------------------------------


def test_no_mean_over_time_tells_a_film_from_itself_played_backwards_but_the_captions_do(
    films: list[DrawnVideo],
) -> None:
    for action in ("moves", "appears", "vanishes", "grows", "shrinks", "turns"):
        film = first_with(films, action)
        back = play_backwards(film)
        ours, theirs = streams_of(film), streams_of(back)
        for name in ORDERLESS:
            np.testing.assert_allclose(ours[name].values.mean(0), theirs[name].values.mean(0), atol=1e-5)
            np.testing.assert_array_equal(ours[name].values, theirs[name].values[::-1])
        assert film.truth.order_words
        assert not set(film.captions) & set(back.captions)
        if action != "turns":  # red to blue and blue to red have the same words in another order
            assert not set(film.truth.order_words) & {word for text in back.captions for word in text.split()}
        assert np.abs(ours["motion"].values.mean(0) - theirs["motion"].values.mean(0)).max() > 0.01
        regions = (streams["moving_regions"].values[:, film.truth.subject].mean(0) for streams in (ours, theirs))
        assert np.abs(np.subtract(*regions)).max() > 0.01


def test_playing_a_film_backwards_twice_gives_it_back(films: list[DrawnVideo]) -> None:
    for film in films[:20]:
        twice = play_backwards(play_backwards(film))
        np.testing.assert_array_equal(twice.pictures, film.pictures)
        np.testing.assert_array_equal(twice.truth.boxes, film.truth.boxes)
        assert (twice.truth.facts, twice.truth.event, twice.truth.things) == (
            film.truth.facts,
            film.truth.event,
            film.truth.things,
        )


def test_bouncing_jumping_spinning_and_blinking_need_no_order(films: list[DrawnVideo]) -> None:
    for film in films:
        symmetric = film.truth.facts.action in {"bounces", "jumps", "spins", "blinks"}
        assert film.truth.facts.depends_on_order is not symmetric
        assert bool(film.truth.order_words) is not symmetric


# --- streams ---------------------------------------------------------------------------------------------------------


def test_streams_have_their_shapes_times_and_boxes() -> None:
    film = draw_video(ShapesConfig(regions=6, frames=20), 5)
    streams = streams_of(film)
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
    np.testing.assert_allclose(streams["regions"].boxes, film.truth.boxes, atol=1e-6)
    np.testing.assert_array_equal(streams["regions"].mask, film.truth.visible)
    assert grid_boxes(4)[5].tolist() == [0.25, 0.25, 0.5, 0.5]


def test_streams_come_from_the_pixels_and_not_from_the_truth(films: list[DrawnVideo]) -> None:
    film, other = films[0], films[1]
    swapped = dataclasses.replace(film, truth=other.truth, captions=other.captions)
    for name, arrays in streams_of(film).items():
        if name not in ("regions", "moving_regions"):
            np.testing.assert_array_equal(arrays.values, streams_of(swapped)[name].values)


def test_a_region_shows_the_colour_of_its_own_object_in_every_frame(films: list[DrawnVideo]) -> None:
    colours = ["red", "orange", "yellow", "green", "turquoise", "blue", "purple", "pink"]
    right = []
    for film in films[:60]:
        if film.truth.facts.action != "turns":
            values = streams_of(film, ("regions",))["regions"].values[..., : len(colours)]  # (F, K, 8)
            for slot, thing in enumerate(film.truth.things):
                if thing is not None:
                    seen = values[film.truth.visible[:, slot], slot].argmax(-1)
                    right += (seen == colours.index(thing.colour)).tolist()
    assert np.mean(right) > 0.97


def test_scene_and_movement_do_not_know_colours_and_shapes() -> None:
    film = lone("moves")
    red, blue = (dataclasses.replace(film, pictures=film.pictures[..., order]) for order in ([0, 1, 2], [2, 1, 0]))
    known = streams_of(red, ("motion", "movement", "scene", "appearance"))
    other = streams_of(blue, ("motion", "movement", "scene", "appearance"))

    def change(name: str) -> float:
        return float(np.linalg.norm(known[name].values - other[name].values) / np.linalg.norm(known[name].values))

    assert change("motion") > 2 * change("movement")
    for frame in streams_of(film, ("scene",))["scene"].values:  # whatever moves across it
        np.testing.assert_array_equal(frame, streams_of(film, ("scene",))["scene"].values[0])


def test_a_moving_region_tells_in_one_frame_who_acts_and_a_region_does_not(films: list[DrawnVideo]) -> None:
    """Of the objects in a frame before the middle of the event, the one whose last numbers are largest."""
    right: dict[str, list[bool]] = {"regions": [], "moving_regions": []}
    for film in films[:100]:
        truth, middle = film.truth, sum(film.truth.event) // 2 - 1
        objects = [slot for slot, thing in enumerate(truth.things) if thing is not None and truth.visible[middle, slot]]
        for name, said in right.items():
            values = streams_of(film, (name,))[name].values[middle, objects]
            said.append(objects[int(values[:, -6:].sum(-1).argmax())] == truth.subject)
    assert np.mean(right["moving_regions"]) > 0.8
    assert np.mean(right["regions"]) < 0.6


def test_the_slot_of_a_region_does_not_betray_the_subject(films: list[DrawnVideo]) -> None:
    slots = Counter(film.truth.subject for film in films)
    assert set(slots) == set(range(8))
    assert max(slots.values()) < 60  # of 300 in 8 slots: expected 37.5, five standard deviations above


def still(texture: str, scene: str) -> dict[str, np.ndarray]:
    """The layers of a film that shows one red circle at rest."""
    canvas = np.zeros((8, 64 + 40, 64 + 40, 3), np.float32)
    canvas[:, 20:-20, 20:-20] = paint_scene(scene, 64, np.random.default_rng(0))
    rest = np.zeros(8)
    thing = Thing("circle", "red", texture, "big")
    paint(canvas, 20, Track(thing, np.full((8, 2), 0.5), np.full(8, 0.15), np.ones(8), rest, None, rest))
    pictures = canvas[:, 20:-20, 20:-20].astype(np.uint8)
    film = dataclasses.replace(draw_video(ShapesConfig(frames=8), 0), pictures=pictures)
    return {name: streams_of(film, (name,))[name].values for name in ("layer1", "layer2", "layer3")}


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
    write_shapes(tmp_path, config, ("appearance", "regions"), lambda film: seen.append(film.video))
    drawn = {film.video: film for film in draw_videos(config)}
    assert seen == list(drawn)
    clips = read_annotations(tmp_path)
    assert {clip.video: (clip.split, clip.captions) for clip in clips} == {
        film.video: (film.split, film.captions) for film in drawn.values()
    }
    truths = read_truth(tmp_path / "truth.jsonl")
    for video, film in drawn.items():
        truth = truths[video]
        np.testing.assert_allclose(truth.boxes, film.truth.boxes, atol=1e-4)
        np.testing.assert_array_equal(truth.visible, film.truth.visible)
        for field in dataclasses.fields(truth):
            if field.name not in ("boxes", "visible"):
                assert getattr(truth, field.name) == getattr(film.truth, field.name)
    store = Store(tmp_path / "store")
    assert sorted(store.streams()) == ["appearance", "regions"]
    np.testing.assert_array_equal(
        store.read("shapes000003", "regions").values, streams_of(drawn["shapes000003"])["regions"].values
    )


def test_films_of_other_options_are_not_mixed_into_a_data_set(tmp_path: Path) -> None:
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
    film = draw_video(ShapesConfig(count=10), 4)
    with av.open(str(tmp_path / "set" / "videos" / f"{film.video}.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert container.streams.video[0].average_rate == 8
    assert np.abs(np.stack(frames).astype(int) - film.pictures).mean() < 8
    with (tmp_path / "set" / "captions.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["video"] == f"{film.video}.mp4"]
    assert [row["caption"] for row in rows] == list(film.captions)
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
    with pytest.raises(WatchwordError, match="watchword shapes"):
        read_truth(tmp_path / "truth.jsonl")
