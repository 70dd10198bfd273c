"""Shots begin where one scene is cut to another, and not where things merely move."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.videos import write_video
from watchword.types import Frames
from watchword.video import Rate, Shot, Squash, histogram_shots, iterate_frames, shots_from_cuts
from watchword.video.shots import histograms

CLIPS = Path(__file__).parents[1] / ".." / "shared" / "data" / "msrvtt" / "clips"


def scene(seed: int, num_frames: int, speed: int = 1) -> NDArray[np.uint8]:
    """A patchwork of few colours that slides sideways, with a little noise: (F, 48, 64, 3)."""
    generator = np.random.default_rng(seed)
    palette = generator.integers(0, 256, (5, 3))
    patches = palette[generator.integers(0, 5, (6, 8))].repeat(8, 0).repeat(8, 1)
    moving = np.stack([np.roll(patches, speed * index, 1) for index in range(num_frames)])
    return (moving + generator.integers(-4, 5, moving.shape)).clip(0, 255).astype(np.uint8)


def chunks(pictures: NDArray[np.uint8], rate: float = 8.0, size: int = 5) -> Iterator[Frames]:
    times = np.arange(len(pictures)) / rate
    for begin in range(0, len(pictures), size):
        yield Frames(pictures[begin : begin + size], times[begin : begin + size])


def test_the_histogram_of_a_picture_in_four_colours_is_one_colour_in_each_part() -> None:
    picture = np.zeros((1, 4, 4, 3), np.uint8)
    picture[0, :2, 2:] = (255, 0, 0)
    picture[0, 2:, :2] = (0, 255, 0)
    picture[0, 2:, 2:] = (0, 0, 31)  # the darkest of eight levels: still black
    found = histograms(picture)
    assert found.shape == (1, 4, 512)
    assert found.argmax(2).tolist() == [[0, 7 * 64, 7 * 8, 0]]
    assert found.max(2).tolist() == [[1, 1, 1, 1]]


def test_three_scenes_are_three_shots() -> None:
    video = np.concatenate([scene(1, 16), scene(2, 24), scene(3, 12)])
    assert histogram_shots(chunks(video)) == [Shot(0.0, 2.0), Shot(2.0, 5.0), Shot(5.0, 6.5)]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_size_of_chunks_changes_nothing(size: int) -> None:
    video = np.concatenate([scene(1, 16), scene(2, 24), scene(3, 12)])
    assert histogram_shots(chunks(video, size=size)) == histogram_shots(chunks(video))


def test_motion_however_fast_is_not_a_cut() -> None:
    assert histogram_shots(chunks(scene(1, 40, speed=9))) == [Shot(0.0, 5.0)]


def test_a_flash_does_not_make_a_shot_shorter_than_the_least() -> None:
    video = scene(1, 40)
    video[20] = 255
    assert len(histogram_shots(chunks(video), minimum_seconds=0.6)) <= 2
    video = np.concatenate([scene(1, 20), scene(2, 2), scene(3, 20)])
    assert all(shot.end - shot.start >= 0.6 for shot in histogram_shots(chunks(video), minimum_seconds=0.6))


def test_shots_follow_each_other_without_a_gap_up_to_the_end() -> None:
    shots = histogram_shots(chunks(np.concatenate([scene(seed, 10) for seed in range(5)])), end=7.0)
    assert shots[0].start == 0.0
    assert shots[-1].end == 7.0
    assert all(shot.end == following.start for shot, following in pairwise(shots))


def test_no_frames_are_no_shots_and_one_frame_is_one() -> None:
    assert histogram_shots([]) == []
    assert histogram_shots(chunks(scene(1, 1)), end=0.04) == [Shot(0.0, 0.04)]
    assert len(histogram_shots(chunks(np.zeros((9, 1, 1, 3), np.uint8)))) == 1


def test_cuts_of_a_real_file_are_found_at_their_times(tmp_path: Path) -> None:
    pictures = np.concatenate([scene(seed, 50) for seed in range(4)])  # 25 a second: cuts at 2, 4, 6
    video = write_video(tmp_path / "x.mp4", list(pictures))
    shots = histogram_shots(iterate_frames(video, Rate(10), Squash(64, 48)), end=8.0)
    assert [shot.start for shot in shots] == pytest.approx([0, 2, 4, 6])


def test_cuts_between_real_clips_are_found() -> None:
    """Twelve clips, four seconds of the middle of each, one after the other."""
    paths = sorted(CLIPS.glob("*.mp4"))[::60]
    if not paths:
        pytest.skip("the clips of ../shared/data/msrvtt are not here")
    videos = [next(iterate_frames(path, Rate(8), Squash(64, 48), chunk=32)).pictures for path in paths]
    starts = np.cumsum([0, *map(len, videos)])[:-1] / 8
    found = np.array([shot.start for shot in histogram_shots(chunks(np.concatenate(videos)))])
    hits = sum(np.abs(found - start).min() < 0.01 for start in starts)
    assert hits >= 0.9 * len(starts)


def test_likely_frames_in_a_row_are_one_transition() -> None:
    cuts = np.array([0.1, 0.9, 0.2, 0.1, 0.6, 0.7, 0.1, 0.1, 0.9])
    assert shots_from_cuts(cuts, np.arange(9.0), end=9.0) == [Shot(0.0, 2.0), Shot(2.0, 6.0), Shot(6.0, 9.0)]
    assert shots_from_cuts(np.zeros(3), np.arange(3.0), end=3.0) == [Shot(0.0, 3.0)]
    assert shots_from_cuts(np.zeros(0), np.zeros(0), end=3.0) == []
