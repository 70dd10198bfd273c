"""Videos of every kind, whole and broken, give the frame that is on screen at the asked-for time, or one clear line."""

import os
import struct
import warnings
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.videos import number_of, numbered, write_tone, write_video
from watchword.errors import WatchwordError
from watchword.video import (
    At,
    CentreCrop,
    DamagedVideo,
    Ends,
    Plan,
    Rate,
    ShortSide,
    Squash,
    Stride,
    Timeline,
    Uniform,
    View,
    iterate_audio,
    iterate_frames,
    iterate_views,
    probe,
    read_audio,
    read_frames,
    read_timeline,
    reader,
)
from watchword.video.reader import packets_to_decode

ODD_VIDEOS = Path(__file__).parents[1] / ".." / "shared" / "data" / "decode"
NUMBERS = [numbered(index) for index in range(100)]
GRAIN = np.random.default_rng(0).integers(0, 28, (100, 96, 128, 3), np.uint8)
GRAINY = [picture + grain for picture, grain in zip(NUMBERS, GRAIN, strict=True)]  # frames that take up some bytes


def numbers(path: Path, plan: Plan) -> list[int]:
    return [number_of(picture) for picture in read_frames(path, plan).pictures]


@pytest.fixture
def plain_passes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """One entry for each pass over a video: was every packet decoded?"""
    passes: list[bool] = []
    original = reader._decoded

    def recorded(path: Path, video: object, expected: object, *rest: object) -> object:
        passes.append(expected is None)
        return original(path, video, expected, *rest)

    monkeypatch.setattr(reader, "_decoded", recorded)
    return passes


def plainly(path: Path) -> list[tuple[int, np.ndarray]]:
    """Every frame of a video, decoded and converted by PyAV alone."""
    with av.open(str(path)) as container:
        return [(frame.pts, frame.to_ndarray(format="rgb24")) for frame in container.decode(video=0)]


# Plans are arithmetic on a timeline.

TIMELINE = Timeline(np.array([0.0, 0.1, 0.2, 1.0]), 2.0)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (Uniform(4), [0.25, 0.75, 1.25, 1.75]),
        (Uniform(1), [1.0]),
        (Ends(2), [0.0, 1.0]),
        (Ends(6), [0.0, 0.0, 0.1, 0.1, 0.2, 1.0]),
        (Rate(2), [0.0, 0.5, 1.0]),
        (Rate(100), [0.0, 0.1, 0.2, 1.0]),
        (Rate(0.1), [0.0]),
        (Stride(3), [0.0, 1.0]),
        (At((0.5, 9.0)), [0.5, 9.0]),
    ],
)
def test_a_plan_gives_the_times_worked_out_by_hand(plan: Plan, expected: list[float]) -> None:
    assert plan.times(TIMELINE) == pytest.approx(expected)


def test_a_plan_begins_where_the_video_begins() -> None:
    late = Timeline(TIMELINE.times + 5, 7.0)
    assert Uniform(2).times(late) == pytest.approx([5.5, 6.5])
    assert Rate(1).times(late) == pytest.approx([5.0, 6.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(0),
        lambda: Rate(0),
        lambda: Rate(float("nan")),
        lambda: Stride(0),
        lambda: Ends(-1),
        lambda: At(()),
        lambda: At((2.0, 1.0)),
        lambda: CentreCrop(0),
        lambda: Squash(10, 10**9),
    ],
)
def test_a_plan_or_size_that_makes_no_sense_is_refused_when_it_is_made(make: object) -> None:
    with pytest.raises(WatchwordError):
        make()  # type: ignore[operator]


# The frame for a time is the one on screen then.


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm", "mov"])
def test_a_variable_frame_rate_shows_the_last_frame_that_began(tmp_path: Path, suffix: str) -> None:
    codec = "libvpx" if suffix == "webm" else "libx264"
    video = write_video(tmp_path / f"x.{suffix}", NUMBERS[:6], [0, 40, 400, 1000, 1040, 3000], codec=codec)
    assert read_timeline(video).times == pytest.approx([0, 0.04, 0.4, 1.0, 1.04, 3.0], abs=1e-3)
    assert numbers(video, At((0.0, 0.039, 0.04, 0.3, 0.4, 0.999, 1.0, 1.02, 2.9, 3.0, 99.0))) == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        5,
        5,
    ]
    shown = read_frames(video, At((0.3, 2.9)))
    assert shown.times == pytest.approx([0.04, 1.04], abs=1e-3)


def test_ten_frames_a_second_of_a_25_fps_video_are_at_their_times_not_at_every_second_frame(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS[:50])
    assert numbers(video, Rate(10)) == [0, 2, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 30, 32, 35, 37, 40, 42, 45, 47]


CODECS = [
    ("x.mp4", "libx264", {"g": "12", "bf": "3"}),
    ("x.mp4", "libx264", {"g": "10", "bf": "3", "x264-params": "open-gop=1:keyint=10:min-keyint=10:scenecut=0"}),
    ("x.mp4", "libx264", {"x264-params": "intra-refresh=1:keyint=10"}),
    ("x.ts", "libx264", {"g": "12", "bf": "2"}),
    ("x.mkv", "libx265", {"x265-params": "keyint=12:bframes=3:log-level=none"}),
    ("x.mp4", "mpeg4", {"g": "12", "bf": "2"}),
    ("x.avi", "mpeg4", {"g": "12"}),
    ("x.mpg", "mpeg2video", {"g": "12", "bf": "2"}),
    ("x.webm", "libvpx", {"g": "12", "auto-alt-ref": "1", "lag-in-frames": "10"}),
    ("x.webm", "libvpx-vp9", {"g": "12", "cpu-used": "8", "lag-in-frames": "10"}),
    ("x.mkv", "mjpeg", {}),
    ("x.flv", "flv", {"g": "12"}),
]


@pytest.mark.parametrize("far", [reader.FAR, 1])  # read over what is not needed, or jump over all of it
@pytest.mark.parametrize(("name", "codec", "options"), CODECS)
def test_sparse_reading_gives_the_very_pixels_of_plain_decoding(
    tmp_path: Path,
    name: str,
    codec: str,
    options: dict[str, str],
    far: int,
    plain_passes: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"this PyAV has no encoder {codec}")
    monkeypatch.setattr(reader, "FAR", far)
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    video = write_video(tmp_path / name, NUMBERS, codec=codec, options=options, pixels=pixels)
    plain = plainly(video)
    assert len(plain) == 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (1, 7, 33):
            found = read_frames(video, Stride(step))
            assert len(found.pictures) == len(plain[::step])
            for index, (picture, (_, expected)) in enumerate(zip(found.pictures, plain[::step], strict=True)):
                np.testing.assert_array_equal(picture, expected, err_msg=f"frame {index * step} of {codec}")
        assert numbers(video, Uniform(3)) == [16, 50, 83]
    refreshes = "intra-refresh" in str(options)  # its key frames are not whole: the plain way finds the frames
    assert plain_passes.count(True) == (4 if name == "x.avi" else 3 if refreshes else 0)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_of_a_long_video_only_what_lies_around_the_wanted_frames_is_read(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [numbered(index % 256, 64, 32) for index in range(2000)]
    options = {"preset": "ultrafast", "x264-params": "keyint=37:scenecut=0:bframes=3:open-gop=1"}
    video = write_video(tmp_path / f"long.{suffix}", small, options=options)
    read: list[int] = []
    original = reader._packets

    def counted(*words: Any) -> Any:
        for packet in original(*words):
            read.append(1)
            yield packet

    monkeypatch.setattr(reader, "_packets", counted)
    wanted = [300, 1000, 1111, 1999]
    plan = At(tuple(index * 0.04 for index in wanted))
    assert numbers(video, plan) == [index % 256 for index in wanted]
    assert len(read) < 4 * 3 * 37 + reader.FAR  # three groups for each, and the way from 1000 to 1111 on foot
    jump = reader._jump

    def misled(*words: Any) -> Any:
        packets, number = jump(*words)
        next(packets)
        return packets, number

    monkeypatch.setattr(reader, "_jump", misled)  # it lands one packet further than it says
    read.clear()
    assert numbers(video, plan) == [index % 256 for index in wanted]
    assert len(read) > 1900


def test_of_a_video_only_the_groups_with_wanted_frames_are_decoded() -> None:
    #            I  P  B  B   I  B  B  P   I  P    open groups: the B after the second I are shown before it
    ticks = np.array([0, 3, 1, 2, 6, 4, 5, 7, 8, 9])
    keys = np.array([1, 0, 0, 0, 1, 0, 0, 0, 1, 0], bool)

    def needed(*wanted: int) -> list[int]:
        return np.flatnonzero(packets_to_decode(ticks, keys, np.isin(ticks, wanted))).tolist()

    assert needed(0) == [0]
    assert needed(1) == [0, 1, 2]
    assert needed(7) == [4, 7]  # its leading B frames are left out
    assert needed(5) == [0, 1, 2, 3, 4, 5, 6]  # a leading B frame refers to the group before
    assert needed(0, 9) == [0, 8, 9]
    assert needed(2, 7) == [0, 1, 2, 3, 4, 5, 6, 7]  # nothing is left out of two groups in a row


def test_a_video_that_starts_late_counts_from_its_own_start(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.ts", NUMBERS[:25], [5000 + 40 * index for index in range(25)])
    assert read_timeline(video).times[[0, -1]] == pytest.approx([0.0, 0.96], abs=1e-3)
    assert numbers(video, At((0.0, 0.5, 0.96))) == [0, 12, 24]


def test_pictures_that_begin_after_the_sound_keep_their_distance(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", NUMBERS[:10], [500 + 40 * index for index in range(10)], tone=440)
    assert read_timeline(video).times[0] == pytest.approx(0.5, abs=0.03)
    assert numbers(video, At((0.0, 0.6)))[0] == 0  # before the first frame is the first frame


def test_a_video_without_a_duration_in_its_header_is_measured(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", NUMBERS[:50], container_options={"live": "1"})
    with av.open(str(video)) as container:
        assert container.duration is None
    assert probe(video).duration_seconds == pytest.approx(2.0, abs=0.01)
    assert numbers(video, Uniform(2)) == [12, 37]


def test_an_edit_list_hides_what_it_cuts(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS[:50], options={"bf": "0", "g": "50"})
    data = bytearray(video.read_bytes())
    place = data.index(b"elst")  # version+flags, count, then duration, media time, rate
    version, count, duration, begin = struct.unpack(">IIIi", data[place + 4 : place + 20])
    assert (version, count, begin) == (0, 1, 0)
    data[place + 12 : place + 20] = struct.pack(">Ii", duration - 1000, 16_000)  # from the video's second second on
    video.write_bytes(data)
    assert len(read_timeline(video).times) == 25
    assert numbers(video, At((0.0, 0.4))) == [25, 35]


def test_raw_streams_without_times_are_shown_at_their_rate(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.h264", NUMBERS[:50], container_format="h264", options={"bf": "2"})
    assert numbers(video, Stride(10)) == [0, 10, 20, 30, 40]


# Shapes, turns and colours.


def quadrants(width: int = 64, height: int = 32) -> np.ndarray:
    """Red, green / blue, white."""
    picture = np.zeros((height, width, 3), np.uint8)
    half_height, half_width = height // 2, width // 2
    picture[:half_height, :half_width, 0] = 255
    picture[:half_height, half_width:, 1] = 255
    picture[half_height:, :half_width, 2] = 255
    picture[half_height:, half_width:] = 255
    return picture


def corners(picture: np.ndarray) -> str:
    """The colours of the four quarters, row by row."""
    height, width, _ = picture.shape
    names = {(1, 0, 0): "R", (0, 1, 0): "G", (0, 0, 1): "B", (1, 1, 1): "W"}
    spots = [(row, column) for row in (height // 4, 3 * height // 4) for column in (width // 4, 3 * width // 4)]
    return "".join(names[tuple((picture[row, column] > 128).astype(int).tolist())] for row, column in spots)


@pytest.mark.parametrize(
    ("rotation", "expected", "degrees"),
    [
        ({"degrees": 0}, "RGBW", 0),
        ({"degrees": 90}, "GWRB", 270),  # counter-clockwise
        ({"degrees": -90}, "BRWG", 90),  # clockwise: a telephone held upright
        ({"degrees": 180}, "WBGR", 180),
        ({"degrees": 0, "hflip": True}, "GRWB", None),
        ({"degrees": 0, "vflip": True}, "BWRG", None),
    ],
)
def test_a_video_is_shown_upright(tmp_path: Path, rotation: dict, expected: str, degrees: int | None) -> None:
    video = write_video(tmp_path / "x.mp4", [quadrants()] * 3, pixels="yuv444p", rotation=rotation)
    (picture,) = read_frames(video, Uniform(1)).pictures
    assert corners(picture) == expected
    turned = expected in {"GWRB", "BRWG"}
    assert picture.shape == ((64, 32, 3) if turned else (32, 64, 3))
    info = probe(video)
    assert (info.width, info.height) == ((32, 64) if turned else (64, 32))
    if degrees is not None:
        assert info.rotation == degrees
    assert read_frames(video, Uniform(1), ShortSide(16)).pictures.shape[1:3] == ((32, 16) if turned else (16, 32))


def test_sizes_squash_or_scale_or_crop(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", [quadrants(120, 60)], pixels="yuv444p")
    shapes = {
        size: read_frames(video, Uniform(2), size).pictures.shape
        for size in (Squash(30, 50), ShortSide(24), CentreCrop(24))
    }
    assert list(shapes.values()) == [(2, 50, 30, 3), (2, 24, 48, 3), (2, 24, 24, 3)]
    assert all(corners(read_frames(video, Uniform(1), size).pictures[0]) == "RGBW" for size in shapes)
    wide = np.zeros((60, 120, 3), np.uint8)
    wide[:, 30:90] = 255  # the middle square is all white
    video = write_video(tmp_path / "y.mp4", [wide], pixels="yuv444p")
    assert read_frames(video, Uniform(1), CentreCrop(30)).pictures[0, :, 2:-2].min() > 230


def test_pixels_that_are_not_square_are_made_square(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", [quadrants()], options={"x264-params": "sar=2/1"})
    assert (probe(video).width, probe(video).height) == (128, 32)
    assert read_frames(video, Uniform(1)).pictures.shape == (1, 32, 128, 3)


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv444p", "yuv420p10le", "yuvj420p", "yuv422p10le"])
def test_colours_survive_every_layout_depth_and_range(tmp_path: Path, pixels: str) -> None:
    colour = np.array([200, 120, 40], np.uint8)
    video = write_video(tmp_path / "x.mp4", [np.broadcast_to(colour, (64, 64, 3)).copy()], pixels=pixels)
    picture = read_frames(video, Uniform(1)).pictures[0]
    assert np.abs(picture[16:48, 16:48].astype(int) - colour).max() <= 6


def test_a_video_that_says_bt709_is_converted_as_bt709(tmp_path: Path) -> None:
    yuv = np.concatenate(
        [np.full((64, 64), 63, np.uint8), np.full((16, 64), 102, np.uint8), np.full((16, 64), 240, np.uint8)]
    )
    path = tmp_path / "x.mp4"  # pure red is (63, 102, 240) in BT.709; read as BT.601 it would be (254, 0, 5)...
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"x264-params": "colormatrix=bt709", "crf": "1"})
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(yuv, format="yuv420p")))
        container.mux(stream.encode(None))
    red = read_frames(path, Uniform(1)).pictures[0, 32, 32].astype(int)
    assert np.abs(red - [255, 0, 0]).max() <= 3


def test_one_pixel_one_frame_and_more_frames_than_there_are(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", [np.full((1, 1, 3), 200, np.uint8)], pixels="yuv444p")
    frames = read_frames(video, Uniform(5))
    assert frames.pictures.shape == (5, 1, 1, 3)
    assert frames.times.tolist() == [0.0] * 5
    assert abs(int(frames.pictures.mean()) - 200) < 4


def test_gifs_and_photographs_are_videos(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.gif", NUMBERS[:4], [0, 120, 240, 360], codec="gif", pixels="rgb8")
    assert numbers(video, At((0.0, 0.13, 0.3, 5.0))) == [0, 1, 2, 3]
    photographs = (("x.png", "png", "rgb24"), ("x%03d.png", "png", "rgb24"), ("x.jpg", "mjpeg", "yuvj420p"))
    for name, codec, pixels in photographs:
        write_video(tmp_path / "photo.mov", [numbered(77)], codec=codec, pixels=pixels)
        with av.open(str(tmp_path / "photo.mov")) as container:
            (tmp_path / name).write_bytes(bytes(next(container.demux(video=0))))
        assert numbers(tmp_path / name, Uniform(2)) == [77, 77]


# Several views, chunks, bounded memory.


def test_several_views_in_one_decoding_equal_each_alone(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS)
    views = {"few": View(Uniform(7), CentreCrop(32)), "many": View(Rate(12), Squash(40, 20)), "all": View(Stride(1))}
    found: dict[str, list] = {name: [] for name in views}
    for name, frames in iterate_views(video, views, chunk=10):
        assert len(frames.pictures) <= 10
        found[name].append(frames)
    for name, view in views.items():
        alone = read_frames(video, view.plan, view.size)
        np.testing.assert_array_equal(np.concatenate([frames.pictures for frames in found[name]]), alone.pictures)
        np.testing.assert_array_equal(np.concatenate([frames.times for frames in found[name]]), alone.times)


def test_chunks_come_before_the_video_is_read_to_its_end(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS)
    chunks = iterate_frames(video, Stride(1), chunk=8)
    assert [number_of(picture) for picture in next(chunks).pictures] == list(range(8))
    chunks.close()


def test_more_threads_change_nothing(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS)
    one, three = (read_frames(video, Uniform(9), threads=threads) for threads in (1, 3))
    np.testing.assert_array_equal(one.pictures, three.pictures)


# Sound.


def pitch(samples: np.ndarray, rate: int) -> float:
    return float(np.fft.rfftfreq(len(samples), 1 / rate)[np.abs(np.fft.rfft(samples)).argmax()])


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
@pytest.mark.parametrize("rate", [16_000, 22_050])
def test_sound_is_mono_at_the_asked_for_rate(tmp_path: Path, suffix: str, rate: int) -> None:
    codec = "libvpx" if suffix == "webm" else "libx264"
    video = write_video(tmp_path / f"x.{suffix}", NUMBERS[:25], codec=codec, tone=440)
    sound = read_audio(video, rate)
    assert sound.dtype == np.float32
    assert sound.ndim == 1
    assert len(sound) / rate == pytest.approx(1.0, abs=0.06)
    assert pitch(sound, rate) == pytest.approx(440, abs=2)
    assert np.abs(sound).max() == pytest.approx(0.5, abs=0.06)
    np.testing.assert_array_equal(np.concatenate(list(iterate_audio(video, rate, chunk=1000))), sound)


def test_sound_that_begins_late_begins_late(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", NUMBERS[:50], tone=440, tone_start=1.0)
    sound = read_audio(video)
    assert np.abs(sound[:15_000]).max() < 0.01
    assert np.abs(sound[17_000:31_000]).max() > 0.4
    assert len(sound) / 16_000 == pytest.approx(2.0, abs=0.06)


def pcm(path: Path, pieces: list[tuple[float, np.ndarray]], rate: int, layout: str) -> Path:
    """Sound without loss beside a picture: (start in seconds, (channels, samples)) pieces."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=25)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        audio = container.add_stream("pcm_f32le", rate=rate, layout=layout)
        container.mux(video.encode(av.VideoFrame.from_ndarray(quadrants(64, 64)).reformat(format="yuv420p")))
        container.mux(video.encode(None))
        for start, samples in pieces:
            packed = np.ascontiguousarray(samples.T.reshape(1, -1), np.float32)
            frame = av.AudioFrame.from_ndarray(packed, format="flt", layout=layout)
            frame.sample_rate, frame.pts, frame.time_base = rate, round(start * rate), Fraction(1, rate)
            container.mux(audio.encode(frame))
        container.mux(audio.encode(None))
    return path


def test_mono_is_the_mean_of_the_channels_and_never_louder(tmp_path: Path) -> None:
    stereo = np.stack([np.full(1600, 1.0), np.full(1600, 0.5)])
    video = pcm(tmp_path / "x.mkv", [(0.0, stereo)], 16_000, "stereo")
    np.testing.assert_allclose(read_audio(video), np.full(1600, 0.75), atol=1e-6)


def test_sound_that_is_already_right_passes_unchanged(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, (1, 3200)).astype(np.float32)
    np.testing.assert_array_equal(read_audio(pcm(tmp_path / "x.mkv", [(0.0, samples)], 16_000, "mono")), samples[0])


def test_a_hole_in_the_sound_is_silence_and_what_follows_keeps_its_time(tmp_path: Path) -> None:
    loud = np.ones((1, 1600), np.float32)
    sound = read_audio(pcm(tmp_path / "x.mkv", [(0.0, loud), (1.0, loud)], 16_000, "mono"))
    assert len(sound) == 17_600
    assert (sound[:1600] == 1).all()
    assert (sound[1600:16_000] == 0).all()
    assert (sound[16_000:] == 1).all()


def test_a_hole_of_hours_is_closed_and_not_filled(tmp_path: Path) -> None:
    loud = np.ones((1, 1600), np.float32)
    assert len(read_audio(pcm(tmp_path / "x.mkv", [(0.0, loud), (9000.0, loud)], 16_000, "mono"))) == 3200


def test_a_silent_video_has_no_samples(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS[:3])
    assert read_audio(video).shape == (0,)
    assert list(iterate_audio(video)) == []
    assert not probe(video).has_audio


def audio_only(path: Path, *, cover: bool = False) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac" if path.suffix != ".mp3" else "libmp3lame", rate=48_000)
        picture = container.add_stream("mjpeg", rate=25) if cover else None
        if picture is not None:
            picture.width = picture.height = 64
            picture.pix_fmt = "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
            container.mux(picture.encode(av.VideoFrame.from_ndarray(quadrants(64, 64)).reformat(format="yuvj420p")))
        write_tone(container, stream, 440, 0.0, 0.5)
    return path


def test_a_file_with_sound_only_is_refused_and_says_what_is_in_it(tmp_path: Path) -> None:
    path = audio_only(tmp_path / "x.mkv")
    for read in (probe, lambda path: read_frames(path, Uniform(2))):
        with pytest.raises(WatchwordError) as caught:
            read(path)
        assert str(caught.value) == f"cannot read {path}: no video stream (1 audio stream found)"
    assert pitch(read_audio(path), 16_000) == pytest.approx(440, abs=3)


def test_the_cover_of_a_song_is_not_a_video(tmp_path: Path) -> None:
    path = audio_only(tmp_path / "x.mp4", cover=True)
    with pytest.raises(WatchwordError, match=r"no video stream \(1 audio stream, 1 cover picture found\)"):
        probe(path)


# Broken videos.


@pytest.mark.parametrize(("name", "options"), [("x.mp4", {"movflags": "faststart"}), ("x.mkv", {}), ("x.ts", {})])
def test_a_video_cut_short_gives_its_good_frames_and_a_warning(tmp_path: Path, name: str, options: dict) -> None:
    video = write_video(tmp_path / name, GRAINY, container_options=options, options={"g": "10", "bf": "2"})
    whole = video.read_bytes()
    video.write_bytes(whole[: len(whole) * 6 // 10])
    lines: list[str] = []
    found = read_frames(video, Stride(1), report=lines.append)
    seen = [number_of(picture) for picture in found.pictures]
    assert 40 < len(set(seen)) < 75
    assert seen[:40] == list(range(40))
    assert read_frames(video, Uniform(6), report=lines.append).pictures.shape[0] == 6
    if name != "x.ts":  # a transport stream has no length to fall short of
        assert lines
        assert str(video) in lines[0]
        assert probe(video).warnings
        with pytest.warns(DamagedVideo, match=r"x\.m"):
            read_frames(video, Uniform(2))


def test_a_video_with_a_hole_gives_the_frames_around_it_and_a_warning(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", GRAINY, options={"g": "5"})
    data = bytearray(video.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(range(250)) * 12
    video.write_bytes(data)
    lines: list[str] = []
    seen = [number_of(picture) for picture in read_frames(video, Stride(1), report=lines.append).pictures]
    assert {0, 20, 99} <= set(seen)
    assert len(set(seen)) > 50
    assert lines


def test_random_damage_never_brings_anything_but_frames_or_one_clear_line(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    sources = [
        write_video(tmp_path / name, NUMBERS[:20], tone=440, container_options=options)
        for name, options in (("x.mp4", {"movflags": "faststart"}), ("x.mkv", {}), ("x.ts", {}))
    ]
    for trial in range(60):
        source = sources[trial % 3]
        data = bytearray(source.read_bytes())
        for place in generator.integers(0, len(data), 1 + trial // 3):
            data[place] = generator.integers(256)
        damaged = tmp_path / f"damaged{source.suffix}"
        damaged.write_bytes(data)
        try:
            frames = read_frames(damaged, Uniform(4), Squash(32, 32), report=lambda line: None)
            assert frames.pictures.shape == (4, 32, 32, 3)
            read_audio(damaged, report=lambda line: None)
        except WatchwordError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert str(error).startswith("cannot read ")  # noqa: PT017


def test_ffmpeg_says_nothing_of_its_own(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS[:50], container_options={"movflags": "faststart"})
    capfd.readouterr()
    video.write_bytes(video.read_bytes()[:-500])
    read_frames(video, Stride(1), report=lambda line: None)
    assert capfd.readouterr() == ("", "")


# Strangers' files.


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("empty.mp4", b"", "the file is empty"),
        ("text.mp4", b"once upon a time there was a video\n" * 100, "FFmpeg finds no video in it"),
        ("noise.mp4", bytes(range(256)) * 64, "FFmpeg finds no video in it"),
        ("zeros.mp4", bytes(100_000), "cannot read"),
        ("text.txt", b"\x1b[31mred\n" * 100, "cannot read"),
    ],
)
def test_what_is_not_a_video_gives_one_clear_line(tmp_path: Path, name: str, content: bytes, line: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WatchwordError, match=line) as caught:
        read_frames(tmp_path / name, Uniform(2))
    assert "\n" not in str(caught.value)


LISTS = {
    "x.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{secret}\n#EXT-X-ENDLIST\n",
    "x.ffconcat": "ffconcat version 1.0\nfile secret.ts\n",
    "x.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    'mediaPresentationDuration="PT1S"><Period><AdaptationSet mimeType="video/mp4"><Representation id="1" '
    'bandwidth="1"><BaseURL>{secret}</BaseURL></Representation></AdaptationSet></Period></MPD>',
    "x.sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
    "a=rtpmap:96 H264/90000\n",
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("suffix", ["", ".mp4"])
def test_a_list_of_other_files_is_refused_unopened(tmp_path: Path, name: str, suffix: str) -> None:
    secret = write_video(tmp_path / "secret.ts", NUMBERS[:25])
    path = tmp_path / (name + suffix)
    path.write_text(LISTS[name].format(secret=secret))
    if not suffix and name in {"x.m3u8", "x.ffconcat"}:  # the danger is real: FFmpeg alone does read the other file
        with av.open(str(path), options={"allowed_extensions": "ALL", "extension_picky": "0"}) as container:
            assert len(list(container.decode(video=0))) == 25
    with pytest.raises(WatchwordError, match="cannot read"):
        read_frames(path, Uniform(2))


def test_a_file_named_like_an_address_or_a_pattern_is_only_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    video = write_video(tmp_path / "x.mp4", NUMBERS[:3]).read_bytes()
    for name in ("http:x.mp4", "pipe:0", "concat:a.ts|b.ts", "-i", "frame%03d.mp4", "data:text,x"):
        Path(name).write_bytes(video)
        assert numbers(Path(name), At((0.0,))) == [0]
    with pytest.raises(WatchwordError, match="no such file"):
        probe("http://127.0.0.1:9/x.mp4")


def test_names_of_any_bytes_are_read_and_shown_on_one_line(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mp4", NUMBERS[:3]).read_bytes()
    for name in (b"caf\xe9 \xff.mp4", b"two\nlines\x1b[31m.mp4", "видео 🎬.mp4".encode()):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        path.write_bytes(video)
        assert numbers(path, At((0.0,))) == [0]
        path.write_bytes(video[:100])
        with pytest.raises(WatchwordError) as caught:
            probe(path)
        assert str(caught.value).encode("utf-8").isascii() or "видео" in str(caught.value)
        assert str(caught.value).isprintable()


def test_folders_pipes_devices_and_missing_files_are_refused_at_once(tmp_path: Path) -> None:
    write_video(tmp_path / "holiday.mp4", NUMBERS[:3])
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "songs.m3u").write_text("#EXTM3U\nholiday.mp4\n")
    for path, line in (
        (tmp_path, "it is a folder"),
        (tmp_path / "pipe.mp4", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path / "holidy.mp4", "no such file; did you mean .*holiday.mp4"),
        (tmp_path / "nowhere" / "x.mp4", "nor is there a folder"),
        (Path("https://example.com/x.mp4"), "https://example.com/x.mp4: .*yt-dlp"),
        (Path("HTTPS://example.com/x.mp4"), "yt-dlp"),
        (Path("www.example.com/watch?v=x"), "yt-dlp"),
        (Path("rtsp://camera/1"), "rtsp://camera/1: .*ffmpeg"),
        (tmp_path / "list.M3U8", "no such file; a playlist is no video, .*yt-dlp"),
        (tmp_path / "songs.m3u", "a playlist is no video; give the files that it names"),
        (Path("/dev/video97"), "reads no camera: record it to a file first"),
        (tmp_path / "holiday.mp4" / "x.mp4", "no such file"),
        (tmp_path / "nul\0.mp4", "cannot read"),
        (tmp_path / ("x" * 300), "cannot read"),
    ):
        with pytest.raises(WatchwordError, match=line):
            probe(path)


def png_header(width: int, height: int) -> bytes:
    def block(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    blocks = block(b"IHDR", header) + block(b"IDAT", zlib.compress(bytes(1000))) + block(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + blocks


def test_a_picture_that_claims_to_be_huge_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png_header(20_000, 20_000))
    with pytest.raises(WatchwordError, match="cannot read"):
        read_frames(tmp_path / "x.png", Uniform(1))
    video = write_video(tmp_path / "x.mkv", [quadrants()] * 3)
    data = bytearray(video.read_bytes())
    place = data.index(b"\xb0\x81\x40\xba\x81\x20")  # PixelWidth 64, PixelHeight 32
    data[place : place + 6] = b"\xb0\x82\xff\xff\xba\x80"  # 65535 wide
    video.write_bytes(data)
    try:
        read_frames(video, Uniform(1), report=lambda line: None)
    except WatchwordError as error:
        assert "cannot read" in str(error)  # noqa: PT017


def test_a_needle_is_not_blown_up_to_a_haystack(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", [np.zeros((8000, 2, 3), np.uint8)], codec="ffv1", pixels="bgr0")
    assert read_frames(video, Uniform(1), Squash(8, 8)).pictures.shape == (1, 8, 8, 3)
    with pytest.raises(WatchwordError, match="ask for a smaller size"):
        read_frames(video, Uniform(1), CentreCrop(224))


def test_time_stamps_of_years_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    video = write_video(tmp_path / "x.mkv", NUMBERS[:3], [0, 40, 10**11])
    with pytest.raises(WatchwordError, match="time stamps run"):
        next(iterate_frames(video, Rate(8)))


@pytest.mark.parametrize("path", sorted(ODD_VIDEOS.glob("*")) or [None], ids=lambda path: path and path.name)
def test_every_odd_video_is_read_or_gives_one_clear_line(path: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if path is None:
        pytest.skip("the odd videos of ../shared/data/decode are not here")
    if path.name in {"CORRUPT_msrvtt_video1696.mp4", "result.webm"}:
        with pytest.raises(WatchwordError, match=r"^cannot read .*$") as caught:
            probe(path)
        assert "\n" not in str(caught.value)
        return
    info = probe(path)
    assert not info.warnings
    frames = read_frames(path, Uniform(8), CentreCrop(64))
    assert frames.pictures.shape == (8, 64, 64, 3)
    assert (np.diff(frames.times) >= 0).all()
    assert frames.times[-1] > 0.5 * info.duration_seconds
    monkeypatch.setattr(reader, "FAR", 1)
    jumped = read_frames(path, Uniform(8), CentreCrop(64))
    assert np.array_equal(jumped.times, frames.times)
    assert np.array_equal(jumped.pictures, frames.pictures)
    sound = read_audio(path)
    assert (len(sound) > 0) == info.has_audio
    assert np.isfinite(sound).all()
