"""Regions, sound, motion between frames, shots: small cases by hand, and real weights on things with known answers."""

import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.checkpoints import TorchVggish
from tests.conftest import SHARED, weights_or_skip
from tests.videos import write_video
from watchword.backbones import audio, regions, transnet
from watchword.backbones.audio import MelConfig, Vggish, YamNet
from watchword.backbones.flow import flow, opencv_flow, pixel_flow
from watchword.backbones.formats import read_constants
from watchword.backbones.regions import (
    YoloTiny,
    best_apart,
    decode,
    intersection_over_union,
    pool_regions,
    read_darknet,
)
from watchword.backbones.transnet import TransNet, colour_histograms, compare_neighbours
from watchword.backbones.weights import WEIGHTS
from watchword.downloads import fetch
from watchword.errors import WatchwordError
from watchword.features.segments import find_shots
from watchword.video import shots_from_cuts


@pytest.fixture(scope="module")
def detector() -> YoloTiny:
    return YoloTiny(weights_or_skip("yolov4_tiny"))


@pytest.fixture(scope="module")
def yamnet() -> YamNet:
    return YamNet(weights_or_skip("yamnet"))


@pytest.fixture(scope="module")
def cutter() -> TransNet:
    return TransNet(weights_or_skip("transnetv2"))


def photo(name: str) -> Tensor:
    """A picture that scikit-image carries, (1, H, W, 3)."""
    data = pytest.importorskip("skimage.data", reason="scikit-image carries the photos: pip install watchword[test]")
    return torch.from_numpy(getattr(data, name)().copy()).unsqueeze(0)


def shared_clip(name: str) -> Path:
    path = SHARED / "msrvtt" / "clips" / f"{name}.mp4"
    if not path.exists():
        pytest.skip(f"no clip {name}: shared data is not here")
    return path


# ---------------------------------------------------------------------------------------------------- regions


def test_overlap_of_boxes_is_shared_area_over_joint_area() -> None:
    one = torch.tensor([0.0, 0.0, 0.4, 0.4])
    others = torch.tensor([[0.0, 0.0, 0.4, 0.4], [0.2, 0.0, 0.6, 0.4], [0.5, 0.5, 0.6, 0.6], [0.0, 0.0, 0.0, 0.0]])
    assert torch.allclose(intersection_over_union(one, others), torch.tensor([1.0, 1 / 3, 0.0, 0.0]))


def test_the_best_boxes_are_taken_in_order_and_what_overlaps_them_is_dropped() -> None:
    boxes = torch.tensor(
        [
            [[0.0, 0.0, 0.4, 0.4], [0.0, 0.0, 0.4, 0.3], [0.5, 0.5, 0.9, 0.9], [0.1, 0.6, 0.2, 0.7]],
            [[0.0, 0.0, 0.4, 0.4], [0.6, 0.0, 1.0, 0.4], [0.0, 0.6, 0.4, 1.0], [0.6, 0.6, 1.0, 1.0]],
        ]
    )
    scores = torch.tensor([[0.8, 0.9, 0.5, 0.001], [0.2, 0.3, 0.4, 0.5]])
    index, mask = best_apart(boxes, scores, k=3, lowest=0.01, overlap=0.5)
    assert index[0, :2].tolist() == [1, 2]  # box 0 lies on the better box 1
    assert mask[0].tolist() == [True, True, False]  # box 3 means nothing
    assert index[1].tolist() == [3, 2, 1]
    assert mask[1].all()


def test_more_boxes_may_be_asked_for_than_there_are() -> None:
    boxes, scores = torch.tensor([[[0.0, 0.0, 0.1, 0.1]]]), torch.tensor([[0.7]])
    _, mask = best_apart(boxes, scores, k=3, lowest=0.01, overlap=0.5)
    assert mask.tolist() == [[True, False, False]]


def test_a_head_that_says_nothing_puts_anchors_in_the_middle_of_their_cells() -> None:
    boxes, probabilities = decode(torch.zeros(1, 3 * 85, 2, 4), regions.FINE_ANCHORS)
    boxes = boxes.view(3, 2, 4, 4)  # anchor, row, column
    width, height = 37 / 416, 58 / 416
    middle_x, middle_y = 2.5 / 4, 1.5 / 2
    wanted = [middle_x - width / 2, middle_y - height / 2, middle_x + width / 2, middle_y + height / 2]
    assert boxes[1, 1, 2].tolist() == pytest.approx(wanted, abs=1e-6)
    assert torch.allclose(probabilities, torch.tensor(0.25))


def test_a_centre_may_leave_its_cell_by_a_fortieth() -> None:
    outputs = torch.zeros(1, 3 * 85, 1, 1)
    outputs[0, 0] = 50.0  # as far right as it goes
    boxes, _ = decode(outputs, regions.COARSE_ANCHORS)
    assert (boxes[0, 0, 0] + boxes[0, 0, 2]).item() / 2 == pytest.approx(1.025, abs=1e-6)


def test_a_weights_file_of_another_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.weights").write_bytes(bytes(20 + 4 * 1000))
    with pytest.raises(WatchwordError, match="it holds 1000 numbers, YOLOv4-tiny has 6062814"):
        read_darknet(tmp_path / "other.weights")


@pytest.mark.parametrize(
    ("name", "thing", "inside"),
    [
        ("astronaut", "person", (0.45, 0.4)),
        ("coffee", "cup", (0.5, 0.35)),
        ("cat", "cat", (0.5, 0.4)),
    ],
)
def test_the_detector_knows_what_is_on_a_photo_and_where(
    detector: YoloTiny, name: str, thing: str, inside: tuple[float, float]
) -> None:
    found = detector.detect(photo(name))
    assert found.boxes.shape == (1, 16, 4)
    assert regions.CLASSES[int(found.classes[0, 0])] == thing
    left, top, right, bottom = found.boxes[0, 0].tolist()
    assert left < inside[0] < right
    assert top < inside[1] < bottom


def test_the_detector_agrees_with_opencv_reading_the_same_file(detector: YoloTiny) -> None:
    """What cv2.dnn.readNetFromDarknet of OpenCV 4.12 gives for the cup, on the picture squashed in the same way."""
    found = detector.detect(photo("coffee"))
    assert found.scores[0, 0].item() == pytest.approx(0.7510, abs=2e-3)
    assert found.boxes[0, 0].tolist() == pytest.approx([0.2766, 0.0296, 0.6876, 0.6592], abs=2e-3)


def test_detections_are_sorted_inside_the_picture_and_masked_ones_are_zero(detector: YoloTiny) -> None:
    found = detector.detect(photo("cat"))
    assert 0 < found.mask.sum() < 16  # a picture of one thing
    assert (found.scores[0].diff() <= 0).all()
    assert found.boxes.min() >= 0
    assert found.boxes.max() <= 1
    for values in (found.boxes, found.scores, found.classes):
        assert not values[~found.mask].any()
    assert (found.boxes[found.mask][:, 2:] > found.boxes[found.mask][:, :2]).all()


def test_frames_are_looked_at_each_for_itself_whatever_the_chunk(detector: YoloTiny) -> None:
    pictures = torch.cat([photo("coffee")[:, :300, :400], photo("astronaut")[:, :300, :400]])
    together, alone = detector.detect(pictures, k=4), detector.detect(pictures, k=4, chunk=1)
    assert torch.allclose(together.boxes, alone.boxes, atol=1e-4)
    assert torch.equal(together.classes, alone.classes)
    assert detector.detect(pictures[:0], k=4).boxes.shape == (0, 4, 4)


def test_the_detector_wants_bytes(detector: YoloTiny) -> None:
    with pytest.raises(WatchwordError, match=r"must be \(F, H, W, 3\) uint8, found \(1, 8, 8, 3\) torch.float32"):
        detector.detect(torch.zeros(1, 8, 8, 3))


def test_a_box_around_one_cell_gives_the_cell_and_around_two_their_mean() -> None:
    grid = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])  # (1, 1, 2, 2)
    boxes = torch.tensor(
        [
            [
                [0.0, 0.0, 0.5, 0.5],
                [0.0, 0.0, 1.0, 1.0],
                [0.25, 0.75, 0.25, 0.75],
                [0.5, 0.25, 0.5, 0.25],
            ]
        ]
    )
    cell, whole, point, between = pool_regions(grid, boxes)[0, :, 0].tolist()
    # 8 samples along 0..0.5 fall at -0.4375..0.4375 from the cell's middle; those beyond it lean to the neighbour:
    lean = sum((0.0625 + 0.125 * step) for step in range(4)) / 8  # mean weight of the second cell: 0.125
    assert cell == pytest.approx(1 + lean * 1 + lean * 2)
    assert whole == pytest.approx(2.5)
    assert point == pytest.approx(3.0)  # the middle of the lower left cell
    assert between == pytest.approx(1.5)  # half way between the upper two


def test_pooling_regions_is_the_mean_of_bilinear_samples() -> None:
    generator = torch.Generator().manual_seed(1)
    grid = torch.randn(3, 5, 7, 6, generator=generator)
    corners = torch.rand(3, 4, 2, 2, generator=generator).sort(2).values
    boxes = corners.flatten(2)  # x0 y0 x1 y1
    steps = (torch.arange(8) + 0.5) / 8
    x = boxes[..., 0:1] + (boxes[..., 2:3] - boxes[..., 0:1]) * steps  # (3, 4, 8)
    y = boxes[..., 1:2] + (boxes[..., 3:4] - boxes[..., 1:2]) * steps
    points = torch.stack([x.unsqueeze(2).expand(-1, -1, 8, -1), y.unsqueeze(3).expand(-1, -1, -1, 8)], 4).flatten(2, 3)
    sampled = functional.grid_sample(grid, points * 2 - 1, padding_mode="border", align_corners=False)
    assert torch.allclose(pool_regions(grid, boxes), sampled.mean(3).transpose(1, 2), atol=1e-5)


# ------------------------------------------------------------------------------------------------------ sound


def test_a_sound_has_as_many_windows_as_fit_whole() -> None:
    config = MelConfig(log_offset=0.001, patch_step=48)
    lengths = [0, 1, 15599, 15600, 15600 + 7679, 15600 + 7680]
    assert [audio.num_patches(length, config) for length in lengths] == [0, 0, 0, 1, 1, 2]
    assert audio.patch_times(15600 + 7680, config).tolist() == pytest.approx([0.4875, 0.9675])


def test_a_long_sound_in_chunks_gives_the_same_patches() -> None:
    config = MelConfig(log_offset=0.001, patch_step=48)
    sound = torch.randn(16000 * 5, generator=torch.Generator().manual_seed(0))
    whole = torch.cat(list(audio.log_mel_patches(sound, config)))
    assert whole.shape == (9, 96, 64)
    assert torch.allclose(whole, torch.cat(list(audio.log_mel_patches(sound, config, chunk=2))), atol=1e-6)
    assert torch.allclose(whole[3], audio.log_mel(sound[3 * 7680 :], config)[:96], atol=1e-6)


def test_silence_is_the_logarithm_of_the_offset_and_a_tone_is_loudest_in_its_band() -> None:
    config = MelConfig(log_offset=0.01, patch_step=96)
    assert torch.allclose(audio.log_mel(torch.zeros(400), config), torch.tensor(math.log(0.01)))
    lowest, highest = (1127 * math.log(1 + hertz / 700) for hertz in (125, 7500))
    for band in (10, 30, 50):
        peak = lowest + (band + 1) * (highest - lowest) / 65
        hertz = 700 * (math.exp(peak / 1127) - 1)
        tone = torch.sin(2 * math.pi * hertz * torch.arange(4000) / 16000)
        assert audio.log_mel(tone, config).mean(0).argmax() == band


def test_our_mel_bands_and_window_are_those_in_yamnets_own_file_and_its_bytes_have_steps(yamnet: YamNet) -> None:
    constants = {constant.name: constant.values for constant in read_constants(fetch(WEIGHTS["yamnet"]))}
    assert torch.allclose(constants["mel_spectrogram"].T, audio.mel_bands(), atol=1e-6)
    assert torch.allclose(constants["stft/hann_window/sub_2"], torch.hann_window(400), atol=1e-6)
    first = constants["tower0/network/layer1/conv/Conv2D"]  # 8 bits: the largest of each filter is 127 of its steps
    assert first[0].abs().max().item() / 127 == pytest.approx(0.00175687, abs=1e-8)


def test_a_file_that_is_not_tensorflow_lite_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(WatchwordError, match="not a TensorFlow Lite file"):
        read_constants(tmp_path / "model.tflite")


SECONDS = torch.arange(16000 * 5) / 16000


@pytest.mark.parametrize(
    ("sound", "name", "theirs"),
    [  # theirs: the 8-bit file itself, run by ai-edge-litert 2.3
        (0.5 * torch.sin(2 * math.pi * 440 * SECONDS), "Sine wave", 0.949),
        (0.5 * torch.sin(2 * math.pi * 1000 * SECONDS), "Beep, bleep", 0.959),
        (torch.zeros(16000 * 5), "Silence", 0.801),
    ],
    ids=["440 Hz", "1000 Hz", "silence"],
)
def test_yamnet_classifies_sounds_as_the_original_does(yamnet: YamNet, sound: Tensor, name: str, theirs: float) -> None:
    windows = yamnet.windows(sound)
    assert windows.vectors.shape == (9, 1024)
    scores = windows.scores.mean(0)
    assert yamnet.class_names[int(scores.argmax())] == name
    assert scores.max().item() == pytest.approx(theirs, abs=0.03)


def test_yamnets_vectors_are_the_originals_but_for_its_rounding(yamnet: YamNet) -> None:
    vector = yamnet.windows(0.5 * torch.sin(2 * math.pi * 440 * SECONDS)).vectors.mean(0)
    theirs = {648: 3.965, 130: 3.630, 40: 3.563, 296: 3.047, 267: 2.865}  # its five largest, by ai-edge-litert
    assert {index: vector[index].item() for index in theirs} == pytest.approx(theirs, abs=0.08)


def test_yamnet_classifies_noise_as_noise(yamnet: YamNet) -> None:
    noise = 0.2 * torch.randn(16000 * 5, generator=torch.Generator().manual_seed(0))
    best = {yamnet.class_names[index] for index in yamnet.windows(noise).scores.mean(0).topk(3).indices.tolist()}
    assert best == {"Static", "White noise", "Noise"}


def test_no_sound_and_a_very_short_one_give_no_windows(yamnet: YamNet) -> None:
    for samples in (0, 15599):
        windows = yamnet.windows(torch.zeros(samples))
        assert windows.vectors.shape == (0, 1024)
        assert windows.scores.shape == (0, 521)
        assert windows.times.shape == (0,)


@pytest.mark.parametrize(("clip", "name"), [("video1020", "Speech"), ("video1034", "Music")])
def test_yamnet_separates_speech_from_music_in_real_videos(yamnet: YamNet, clip: str, name: str) -> None:
    resampler = av.AudioResampler("flt", "mono", 16000)
    with av.open(str(shared_clip(clip))) as video:
        parts = [part.to_ndarray()[0] for frame in video.decode(audio=0) for part in resampler.resample(frame)]
    windows = yamnet.windows(torch.from_numpy(np.concatenate(parts)))
    assert yamnet.class_names[int(windows.scores.mean(0).argmax())] == name


def test_vggish_takes_a_torchvggish_checkpoint_and_refuses_another() -> None:
    torch.manual_seed(0)
    theirs = TorchVggish()
    state = theirs.state_dict()
    network = Vggish({**state, "pproc.pca_means": torch.zeros(128, 1)})
    sound = torch.randn(16000 * 3)
    windows = network.windows(sound)
    assert windows.times.tolist() == pytest.approx([0.4875, 1.4475, 2.4075])
    patches = torch.cat(list(audio.log_mel_patches(sound, MelConfig(log_offset=0.01, patch_step=96))))
    with torch.no_grad():
        maps = theirs.features(patches.unsqueeze(1))
        wanted = theirs.embeddings(maps.transpose(1, 3).transpose(1, 2).reshape(3, -1))
    assert wanted.std() > 0
    assert torch.allclose(windows.vectors, wanted, atol=1e-5)
    assert network.windows(torch.zeros(100)).vectors.shape == (0, 128)
    with pytest.raises(WatchwordError, match=r"no checkpoint of vggish: it has no 'features.0.weight'"):
        Vggish({"conv1.weight": torch.zeros(1)})


# ----------------------------------------------------------------------------------------------------- motion


def moved(horizontal: float, vertical: float, size: int = 96) -> Tensor:
    """Two frames of a drawn pattern that moves right and down by so many pixels, (2, size, size, 3)."""
    y, x = torch.meshgrid(torch.arange(size).float(), torch.arange(size).float(), indexing="ij")

    def brightness(x: Tensor, y: Tensor) -> Tensor:
        waves = ((0.31, 0.12), (-0.11, 0.27), (0.05, -0.09), (0.13, 0.17))
        return 127 + 30 * torch.stack([torch.sin(a * x + b * y + i) for i, (a, b) in enumerate(waves)]).sum(0)

    frames = torch.stack([brightness(x, y), brightness(x - horizontal, y - vertical)])
    return frames.round().to(torch.uint8).unsqueeze(3).expand(-1, -1, -1, 3)


@pytest.mark.parametrize("motion", [(0.0, 0.0), (2.0, 0.0), (0.0, -3.0), (1.5, 0.5), (-6.0, 4.0)])
def test_flow_finds_how_far_a_drawn_pattern_moved(motion: tuple[float, float]) -> None:
    found = pixel_flow(moved(*motion))[0]
    error = (found - torch.tensor(motion).view(2, 1, 1)).norm(dim=0)
    assert error[12:-12, 12:-12].mean() < 0.15
    assert error.mean() < 0.4  # also where the pattern comes in from outside


def test_two_halves_that_part_have_two_motions() -> None:
    frames = moved(3, 0)
    frames = torch.cat([frames, frames.flip(2)], 2)  # the right half is a mirror: it goes left
    found = pixel_flow(frames)[0, 0]
    assert found[20:-20, 20:76].mean().item() == pytest.approx(3, abs=0.2)
    assert found[20:-20, 116:172].mean().item() == pytest.approx(-3, abs=0.2)


def test_flow_is_a_twentieth_of_the_pixels_clipped_at_one_pair_by_pair() -> None:
    frames = torch.cat([moved(2, -1), moved(2, -1).flip(0)])
    found = flow(frames)
    assert found.shape == (3, 2, 96, 96)
    assert torch.allclose(found[0], pixel_flow(frames[:2])[0] / 20, atol=1e-5)
    assert torch.allclose(found, flow(frames, chunk=1), atol=1e-4)
    noise = torch.randint(0, 256, (2, 96, 96, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert flow(noise).abs().max() <= 1
    assert flow(frames[:1]).shape == (0, 2, 96, 96)


def test_flow_of_flat_and_tiny_pictures_is_nothing_and_finite() -> None:
    assert flow(torch.full((3, 40, 30, 3), 128, dtype=torch.uint8)).abs().max() == 0
    assert flow(torch.randint(0, 256, (2, 3, 5, 3), dtype=torch.uint8)).isfinite().all()


def test_opencvs_flow_agrees_or_says_that_opencv_is_missing() -> None:
    if importlib.util.find_spec("cv2") is None:
        with pytest.raises(WatchwordError, match="pip install opencv-python-headless"):
            opencv_flow(moved(2, -1))
        return
    found = opencv_flow(moved(2, -1))
    assert (found - flow(moved(2, -1)))[:, :, 12:-12, 12:-12].abs().mean() < 0.2 / 20


# ------------------------------------------------------------------------------------------------------ shots


def test_colours_are_counted_in_eight_levels_a_channel() -> None:
    picture = torch.tensor([[[0, 0, 0], [31, 31, 31]], [[32, 0, 0], [255, 255, 255]]], dtype=torch.uint8)  # (2, 2, 3)
    counts = colour_histograms(picture.view(1, 1, 2, 2, 3))[0, 0]
    assert counts[0] == 2
    assert counts[64] == 1
    assert counts[511] == 1
    assert counts.sum() == 4


def test_neighbours_are_compared_in_order_of_time_and_absent_ones_are_zero() -> None:
    vectors = torch.eye(3)[[0, 0, 1]].unsqueeze(0)  # frame 1 is like frame 0, frame 2 is not
    found = compare_neighbours(vectors)[0]  # (3, 101), the frame itself in the middle
    assert found.shape == (3, 101)
    assert found[0].nonzero().flatten().tolist() == [50, 51]
    assert found[1].nonzero().flatten().tolist() == [49, 50]
    assert found[2].nonzero().flatten().tolist() == [50]


def test_the_shot_network_says_what_its_own_package_says(cutter: TransNet) -> None:
    frame, row, column, channel = torch.meshgrid(*(torch.arange(n) for n in (100, 27, 48, 3)), indexing="ij")
    early = (row * 9 + column * 2 + channel * 40 + frame) % 256
    late = (column * column // 9 + row * 3 + channel * 90 - frame) % 256
    video = torch.where(frame < 50, early, late).to(torch.uint8)
    logits = cutter(video.unsqueeze(0))[0]
    theirs = {0: -5.0322, 25: -9.4193, 48: -7.2568, 49: 3.9109, 50: -5.7259, 75: -7.9162, 99: -3.5766}
    assert {index: logits[index].item() for index in theirs} == pytest.approx(theirs, abs=1e-3)


def test_videos_joined_end_to_end_are_cut_where_they_meet(cutter: TransNet) -> None:
    parts = []
    for name in ("video103", "video104", "video1048", "video1058"):
        with av.open(str(shared_clip(name))) as video:
            frames = [frame.reformat(transnet.WIDTH, transnet.HEIGHT, "rgb24") for frame in video.decode(video=0)]
        parts += [torch.from_numpy(frame.to_ndarray()) for frame in frames[:30]]
    probabilities = cutter.probabilities(torch.stack(parts))
    assert probabilities.shape == (120,)
    starts = {shot.start for shot in shots_from_cuts(probabilities.numpy(), np.arange(120.0), end=120.0)}
    assert {30, 60, 90} <= starts
    assert len(starts) <= 5  # the clips may have a cut of their own


def test_the_shot_network_takes_any_number_of_small_frames(cutter: TransNet) -> None:
    assert cutter.probabilities(torch.zeros(0, 27, 48, 3, dtype=torch.uint8)).shape == (0,)
    still = cutter.probabilities(torch.full((51, 27, 48, 3), 90, dtype=torch.uint8))
    assert still.shape == (51,)
    assert still.max() < 0.1
    with pytest.raises(WatchwordError, match=r"must be \(F, 27, 48, 3\) uint8"):
        cutter.probabilities(torch.zeros(2, 48, 27, 3, dtype=torch.uint8))


class Witness(TransNet):
    """Answers with the number of each frame, and remembers the windows."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.seen: list[list[int]] = []

    def forward(self, pictures: Tensor) -> Tensor:
        numbers = pictures[:, :, 0, 0, 0]  # (1, 100)
        self.seen.append(numbers[0].tolist())
        return (numbers.float() + 0.5).div(256).logit()


def small_frames(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 27, 48, 3)


@pytest.mark.parametrize("count", [1, 49, 50, 51, 74, 75, 76, 100, 125, 126, 200])
@pytest.mark.parametrize("size", [1, 7, 60, 500])
def test_frames_in_chunks_have_the_windows_of_the_whole_video(count: int, size: int) -> None:
    witness = Witness()
    answers = torch.cat(list(witness.stream(small_frames(count).split(size)))) * 256 - 0.5
    assert answers.round().tolist() == list(range(count))
    expected = [[min(max(at, 0), count - 1) for at in range(start - 25, start + 75)] for start in range(0, count, 50)]
    assert witness.seen == expected


def test_a_long_video_is_processed_as_it_comes_and_never_held() -> None:
    given = 0

    def frames() -> Iterator[Tensor]:
        nonlocal given
        for chunk in small_frames(10).expand(10, 27, 48, 3).repeat(300, 1, 1, 1).split(10):
            given += len(chunk)
            yield chunk

    answered = 0
    for part in Witness().stream(frames()):
        assert given - answered <= 100 + 10  # a window and a chunk
        answered += len(part)
    assert answered == given == 3000


def test_a_videos_shots_begin_where_it_was_joined(cutter: TransNet, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    scenes = [generator.integers(0, 256, (12, 16, 3), np.uint8).repeat(8, 0).repeat(8, 1) for _ in range(3)]
    pictures = [np.roll(scene, step, 1) for scene in scenes for step in range(40)]
    path = write_video(tmp_path / "joined.mp4", pictures)  # 25 frames a second
    found = [time for shot in find_shots(path, cutter) for time in (shot.start, shot.end)]
    assert found == pytest.approx([0.0, 1.6, 1.6, 3.2, 3.2, 4.8])
