"""Networks for pictures and motion: real weights give right answers, users' checkpoints fit, bricks are exact."""

import copy
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.checkpoints import c3d_tensors, i3d_tensors, residual_tensors
from tests.conftest import SHARED, weights_or_skip
from watchword.backbones import adapters
from watchword.backbones.blocks import ACTIVATIONS, Checkpoint, Convolution, fold, max_pool_same, same_padding
from watchword.backbones.c3d import C3D
from watchword.backbones.efficientnet_lite import EfficientNetLite
from watchword.backbones.formats import Tensors
from watchword.backbones.i3d import BRANCHES, I3D, MIXED
from watchword.backbones.resnet import ResNet, ResNeXt3D
from watchword.backbones.weights import load_user_weights
from watchword.errors import WatchwordError
from watchword.precision import CLEARLY_FASTER, cpu_speedup

# --- bricks ---------------------------------------------------------------------------------------------------------


def test_same_padding_gives_ceil_of_size_over_stride_and_puts_the_odd_zero_after() -> None:
    row = torch.tensor([[[[1.0, 2.0, 3.0, 4.0]]]])
    ones = torch.ones(1, 1, 1, 3)
    even = Convolution(ones, torch.zeros(1), stride=2)  # 4 wide: one zero after
    assert even(row).flatten().tolist() == [1 + 2 + 3, 3 + 4]
    odd = Convolution(ones, torch.zeros(1), stride=2)  # 3 wide: a zero on either side
    assert odd(row[..., :3]).flatten().tolist() == [1 + 2, 2 + 3]
    wide = Convolution(torch.ones(1, 1, 1, 2), torch.zeros(1))  # an even kernel: one zero after
    assert wide(row).flatten().tolist() == [3, 5, 7, 4]


def test_same_pooling_pads_after_and_covers_every_value() -> None:
    values = torch.arange(5.0).view(1, 1, 1, 1, 5)
    assert max_pool_same(values, (1, 1, 2), (1, 1, 2)).flatten().tolist() == [1, 3, 4]
    assert max_pool_same(values[..., :4], (1, 1, 3), (1, 1, 2)).flatten().tolist() == [2, 3]


@pytest.mark.parametrize("size", [7, 8, 20, 28, 112, 113])
@pytest.mark.parametrize(("kernel", "stride"), [(7, 2), (5, 2), (3, 2), (3, 1), (2, 2), (1, 1)])
def test_same_padding_always_gives_ceil(size: int, kernel: int, stride: int) -> None:
    (before,), (after,) = same_padding((size,), (kernel,), (stride,))
    assert (size + before + after - kernel) // stride + 1 == -(-size // stride)
    assert before <= after <= before + 1


@pytest.mark.parametrize("sizes", [(8, 8), (7, 7), (7, 8), (9, 12)])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("groups", [1, 6])
def test_same_padding_is_done_inside_the_convolution_or_before_it_alike(
    sizes: tuple[int, int], kernel: int, groups: int
) -> None:
    torch.manual_seed(0)
    values, weight, bias = torch.randn(2, 6, *sizes), torch.randn(6, 6 // groups, kernel, kernel), torch.randn(6)
    (top, left), (bottom, right) = same_padding(sizes, (kernel, kernel), (2, 2))
    expected = F.conv2d(F.pad(values, (left, right, top, bottom)), weight, bias, 2, groups=groups)
    assert torch.allclose(Convolution(weight, bias, 2, groups=groups)(values), expected, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("fused", [True, False])
def test_an_activation_inside_the_convolution_is_the_one_after_it(
    activation: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fused:
        monkeypatch.setattr("watchword.backbones.blocks.FUSED", None)
    torch.manual_seed(0)
    after = {"none": lambda x: x, "relu": F.relu, "relu6": F.relu6, "leaky_relu": lambda x: F.leaky_relu(x, 0.1)}
    for dimensions, convolve in ((2, F.conv2d), (3, F.conv3d)):
        values, weight = 5 * torch.randn(1, 3, *[6] * dimensions), torch.randn(4, 3, *[3] * dimensions)
        expected = after[activation](convolve(values, weight, torch.ones(4), padding=1))
        found = Convolution(weight, torch.ones(4), padding=1, activation=activation)(values)
        assert torch.allclose(found, expected, atol=1e-4)


def test_a_checkpoint_of_repeated_numbers_is_read_number_by_number() -> None:
    weight, bias = torch.ones(1, 1, 1, 1).expand(4, 3, 3, 3), torch.full((1,), 0.5).expand(4)  # no room in memory
    assert Convolution(weight, bias)(torch.zeros(1, 3, 5, 5)).unique().tolist() == [0.5]


@pytest.mark.parametrize("sizes", [(4, 7, 7), (5, 6, 8), (2, 7, 10), (1, 3, 3)])
@pytest.mark.parametrize(("kernel", "stride"), [((3, 3, 3), (1, 1, 1)), ((3, 3, 3), (2, 2, 2)), ((2, 2, 2), (2, 2, 2))])
def test_the_largest_of_a_block_is_found_in_space_and_then_in_time(
    sizes: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    values = torch.rand(2, 3, *sizes)
    before, after = same_padding(sizes, kernel, stride)
    sides = [side for pair in zip(before[::-1], after[::-1], strict=True) for side in pair]
    assert torch.equal(max_pool_same(values, kernel, stride), F.max_pool3d(F.pad(values, sides), kernel, stride))


def test_a_folded_batch_norm_changes_nothing() -> None:
    torch.manual_seed(0)
    weight, values = torch.randn(4, 3, 3, 3), torch.randn(2, 3, 5, 5)
    gamma, beta, mean, variance = torch.randn(4), torch.randn(4), torch.randn(4), torch.rand(4)
    expected = F.batch_norm(F.conv2d(values, weight, padding=1), mean, variance, gamma, beta, eps=1e-3)
    folded = Convolution(*fold(weight, gamma, beta, mean, variance, 1e-3))(values)
    assert torch.allclose(folded, expected, atol=1e-5)


def test_a_checkpoint_says_what_is_missing_misshapen_or_left() -> None:
    checkpoint = Checkpoint({"a": torch.zeros(2), "b": torch.zeros(3), "n.num_batches_tracked": torch.zeros(())}, "Net")
    with pytest.raises(WatchwordError, match=r"no checkpoint of Net: it has no 'c' \(it has a, b"):
        checkpoint.take("c", 1)
    with pytest.raises(WatchwordError, match=r"'a' has shape \(2,\), expected \(5,\)"):
        checkpoint.take("a", 5)
    with pytest.raises(WatchwordError, match=r"1 tensors are left over \(b"):
        checkpoint.finish()
    checkpoint.take("b", 3)
    checkpoint.finish()


# --- networks with real weights -------------------------------------------------------------------------------------


def square(pictures: Tensor, size: int) -> Tensor:
    """The middle square of pictures (F, H, W, 3), scaled, as bytes."""
    side = min(pictures.shape[1:3])
    top, left = (pictures.shape[1] - side) // 2, (pictures.shape[2] - side) // 2
    middle = pictures[:, top : top + side, left : left + side].permute(0, 3, 1, 2).float()
    scaled = F.interpolate(middle, size=(size, size), mode="bilinear", antialias=True)
    return scaled.round().clamp(0, 255).byte().permute(0, 2, 3, 1)


# Photos of scikit-image and their classes of ImageNet-1k (numbers in the order of WordNet identifiers, as in every
# ImageNet model): 281, 282, 285 tabby, tiger cat, Egyptian cat; 967 espresso; 657, 744 missile, projectile;
# 665, 670 moped, motor scooter; 872 tripod.
PHOTOS = {
    "chelsea": {281, 282, 285},
    "coffee": {967},
    "rocket": {657, 744},
    "stereo_motorcycle": {665, 670},
    "camera": {872},
}


def photo(name: str, size: int) -> Tensor:
    data = pytest.importorskip("skimage.data", reason="needs scikit-image's photos: pip install watchword[test]")
    pixels = getattr(data, name)()
    pixels = pixels[0] if isinstance(pixels, tuple) else pixels  # a stereo pair
    pixels = np.stack([pixels] * 3, 2) if pixels.ndim == 2 else pixels
    return square(torch.from_numpy(pixels)[None], size)


@pytest.mark.parametrize("name", PHOTOS)
def test_lite0_recognises_photos(name: str) -> None:
    network = EfficientNetLite(weights_or_skip("efficientnet_lite0"))
    layers = network(photo(name, 224))
    assert int(network.classify(layers["pooled"]).argmax()) in PHOTOS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientnet_lite1", "efficientnet_lite2"])
def test_lite1_and_lite2_recognise_photos(name: str) -> None:
    network = EfficientNetLite(weights_or_skip(name), name)
    right = [
        int(network.classify(network(photo(which, network.picture_size))["pooled"]).argmax()) in classes
        for which, classes in PHOTOS.items()
        if which != "rocket"  # both see the launch tower: 540, drilling platform
    ]
    assert all(right)


def test_lite0_has_the_shapes_it_says_and_the_published_number_of_parameters() -> None:
    tensors = weights_or_skip("efficientnet_lite0")
    layers = EfficientNetLite(tensors)(torch.zeros(2, 224, 224, 3, dtype=torch.uint8))
    assert {name: tuple(values.shape) for name, values in layers.items()} == {
        "stage5": (2, 14, 14, 112),
        "stage7": (2, 7, 7, 320),
        "grid": (2, 7, 7, 1280),
        "pooled": (2, 1280),
    }
    learned = [value for name, value in tensors.items() if name.endswith((".weight", ".bias"))]
    assert sum(value.numel() for value in learned) == 4_652_008


def test_lite0_equals_its_checkpoint_run_without_folding() -> None:
    tensors = weights_or_skip("efficientnet_lite0")
    pictures = photo("coffee", 224)

    def unit(values: Tensor, convolution: str, norm: str, stride: int = 1) -> Tensor:
        weight = tensors[f"{convolution}.weight"]
        missing = max((-(-values.shape[-1] // stride) - 1) * stride + weight.shape[-1] - values.shape[-1], 0)
        values = F.pad(values, (missing // 2, missing - missing // 2) * 2)
        values = F.conv2d(values, weight, stride=stride, groups=values.shape[1] if weight.shape[1] == 1 else 1)
        statistics = (tensors[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(values, *statistics, eps=1e-3)

    values = F.relu6(unit((pictures.permute(0, 3, 1, 2).float() - 127) / 128, "_conv_stem", "_bn0", 2))
    for number in range(16):
        name, before = f"_blocks.{number}", values
        if f"{name}._expand_conv.weight" in tensors:
            values = F.relu6(unit(values, f"{name}._expand_conv", f"{name}._bn0"))
        stride = 2 if number in (1, 3, 5, 11) else 1
        values = F.relu6(unit(values, f"{name}._depthwise_conv", f"{name}._bn1", stride))
        values = unit(values, f"{name}._project_conv", f"{name}._bn2")
        values = values + before if values.shape == before.shape else values
    expected = F.relu6(unit(values, "_conv_head", "_bn1")).permute(0, 2, 3, 1)
    assert torch.allclose(EfficientNetLite(tensors)(pictures)["grid"], expected, atol=1e-4)


# Kinetics-400 in the alphabetical order of DeepMind's label map: 59 clean and jerk, 107 dunking basketball,
# 171 juggling soccer ball, 271 riding mountain bike.
VIDEOS = [
    ("v_SoccerJuggling_g23_c01.avi", 16, 224, 2, 171),
    ("v_SoccerJuggling_g23_c01.avi", 32, 160, 2, 171),
    ("basketball.mp4", 16, 224, 2, 107),
    ("basketball.mp4", 32, 160, 2, 107),
    ("v_GGSY1Qvo990.mp4", 16, 224, 2, 59),
    ("bikes.mp4", 32, 160, 2, 271),
]


@pytest.fixture(scope="module")
def i3d() -> I3D:
    return I3D(weights_or_skip("i3d"))


@pytest.mark.slow
@pytest.mark.parametrize(("video", "num_frames", "size", "stride", "action"), VIDEOS)
def test_i3d_recognises_actions(i3d: I3D, video: str, num_frames: int, size: int, stride: int, action: int) -> None:
    path = SHARED / "decode" / video
    if not path.exists():
        pytest.skip(f"no video at {path}")
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    first = max(0, (len(pictures) - num_frames * stride) // 2)
    middle = torch.from_numpy(np.stack(pictures[first::stride][:num_frames]))
    layers = i3d(square(middle, size)[None])
    assert int(i3d.classify(layers["pooled"]).argmax()) == action
    assert layers["Mixed_5c"].shape == (1, num_frames // 8, size // 32, size // 32, 1024)


@pytest.mark.slow
def test_i3d_in_bfloat16_has_the_same_features_but_for_rounding(i3d: I3D) -> None:
    if cpu_speedup() < CLEARLY_FASTER:
        pytest.skip("bfloat16 does not work on this CPU, or is slow")
    clip = torch.randint(0, 256, (1, 16, 64, 64, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    exact, rounded = i3d(clip), copy.deepcopy(i3d).to(torch.bfloat16)(clip)
    for name, layer in exact.items():
        assert rounded[name].dtype == torch.float32
        assert F.cosine_similarity(layer.flatten(), rounded[name].flatten(), 0) > 0.998, name
        assert not torch.equal(layer, rounded[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(16, 96, 96), (9, 75, 50)], ids=["even", "odd"])
def test_i3d_equals_its_checkpoint_run_without_folding_or_merging(i3d: I3D, shape: tuple[int, int, int]) -> None:
    tensors = weights_or_skip("i3d")

    def padded(values: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], filling: float) -> Tensor:
        sides: list[int] = []
        for size, width, step in zip(values.shape[2:], kernel, stride, strict=True):
            missing = max((-(-size // step) - 1) * step + width - size, 0)
            sides = [missing // 2, missing - missing // 2, *sides]
        return F.pad(values, sides, value=filling)

    def unit(values: Tensor, name: str, stride: int = 1) -> Tensor:
        weight = tensors[f"params/{name}/Conv_0/kernel"].permute(4, 3, 0, 1, 2)
        values = F.conv3d(padded(values, weight.shape[2:], (stride,) * 3, 0.0), weight, stride=stride)
        mean, variance, bias = (
            tensors[f"{place}/{name}/BatchNorm_0/{part}"].view(1, -1, 1, 1, 1)
            for place, part in (("batch_stats", "mean"), ("batch_stats", "var"), ("params", "bias"))
        )
        return F.relu((values - mean) / torch.sqrt(variance + 1e-3) + bias)

    def pool(values: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
        return F.max_pool3d(padded(values, kernel, stride, -torch.inf), kernel, stride)

    torch.manual_seed(0)
    clips = torch.randint(0, 256, (1, *shape, 3), dtype=torch.uint8)
    values = unit(clips.permute(0, 4, 1, 2, 3) / 127.5 - 1, "Conv3d_1a_7x7", 2)
    values = unit(pool(values, (1, 3, 3), (1, 2, 2)), "Conv3d_2b_1x1")
    values = pool(unit(values, "Conv3d_2c_3x3"), (1, 3, 3), (1, 2, 2))
    for name in MIXED:
        if name == "Mixed_4b":
            values = pool(values, (3, 3, 3), (2, 2, 2))
        if name == "Mixed_5b":
            values = pool(values, (2, 2, 2), (2, 2, 2))
        paths = [
            unit(values, f"{name}/Branch_0/Conv3d_0a_1x1"),
            unit(unit(values, f"{name}/Branch_1/Conv3d_0a_1x1"), f"{name}/Branch_1/Conv3d_0b_3x3"),
            unit(unit(values, f"{name}/Branch_2/Conv3d_0a_1x1"), f"{name}/Branch_2/Conv3d_0b_3x3"),
            unit(pool(values, (3, 3, 3), (1, 1, 1)), f"{name}/Branch_3/Conv3d_0b_1x1"),
        ]
        values = torch.cat(paths, 1)
    expected = values.permute(0, 2, 3, 4, 1)
    found = i3d(clips)["Mixed_5c"]
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4)


# --- networks from a user's checkpoint ------------------------------------------------------------------------------


def test_i3d_on_flow_takes_two_channels_from_a_users_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(i3d_tensors(channels=2), tmp_path / "flow_imagenet.pt")
    network = I3D(load_user_weights(tmp_path / "flow_imagenet.pt"), channels=2)
    layers = network(torch.randn(1, 16, 64, 96, 2) * 9)
    assert {name: tuple(values.shape) for name, values in layers.items()} == {
        "Conv3d_2c_3x3": (1, 8, 16, 24, 192),
        "Mixed_3c": (1, 8, 8, 12, 480),
        "Mixed_4f": (1, 4, 4, 6, 832),
        "Mixed_5c": (1, 2, 2, 3, 1024),
        "pooled": (1, 1024),
    }
    assert torch.allclose(layers["pooled"], layers["Mixed_5c"].mean((1, 2, 3)), atol=1e-5)
    beyond = torch.full((1, 8, 32, 32, 2), 20.0)
    assert torch.equal(network(beyond)["pooled"], network(beyond * 5)["pooled"])  # cut at 20 pixels
    assert set(network(beyond, layers=("Mixed_5c",))) == {"Mixed_5c", "pooled"}
    with pytest.raises(WatchwordError, match="needs 8 frames of 32 x 32 pixels or more"):
        network(torch.zeros(1, 4, 64, 64, 2))
    with pytest.raises(WatchwordError, match=r"expected \(64, 3, 7, 7, 7\)"):
        I3D(load_user_weights(tmp_path / "flow_imagenet.pt"))


def test_i3d_reads_deepminds_names_and_the_ports_alike() -> None:
    torch.manual_seed(0)
    port = i3d_tensors(channels=3)
    port = {name: torch.ones_like(value) if name.endswith("bn.weight") else value for name, value in port.items()}
    branches = {ours: theirs for theirs, ours in BRANCHES.items()}
    places = {
        "conv3d.weight": "params/{}/Conv_0/kernel",
        "conv3d.bias": "params/{}/Conv_0/bias",
        "bn.bias": "params/{}/BatchNorm_0/bias",
        "bn.running_mean": "batch_stats/{}/BatchNorm_0/mean",
        "bn.running_var": "batch_stats/{}/BatchNorm_0/var",
    }
    deepmind = {}
    for name, value in port.items():
        pieces = name.split(".")
        place = places.get(".".join(pieces[-2:]))
        if place:
            unit = "/".join([pieces[0], *(branches[piece] for piece in pieces[1:-2])])
            unit = unit.replace("logits", "Logits/Conv3d_0c_1x1")
            deepmind[place.format(unit)] = (
                value.permute(2, 3, 4, 1, 0) if value.dim() == 5 else value.view(1, 1, 1, 1, -1)
            )
    clips = torch.randint(0, 256, (1, 8, 32, 32, 3))
    assert torch.equal(I3D(deepmind)(clips)["pooled"], I3D(port)(clips)["pooled"])


def residual_grid(tensors: Tensors, values: Tensor, groups: int) -> Tensor:
    """The network as it is published, nothing folded: (B, D, H, W) or (B, D, F, H, W)."""
    flat = values.dim() == 4
    convolve: Callable[..., Tensor] = F.conv2d if flat else F.conv3d

    def unit(values: Tensor, convolution: str, norm: str, stride: int | tuple[int, ...] = 1) -> Tensor:
        weight = tensors[f"{convolution}.weight"]
        apart = groups if weight.shape[1] * groups == values.shape[1] else 1
        values = convolve(values, weight, stride=stride, padding=weight.shape[-1] // 2, groups=apart)
        statistics = (tensors[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(values, *statistics)

    values = F.relu(unit(values, "conv1", "bn1", 2 if flat else (1, 2, 2)))
    values = (F.max_pool2d if flat else F.max_pool3d)(values, 3, 2, 1)
    for name in dict.fromkeys(".".join(key.split(".")[:2]) for key in tensors if key.startswith("layer")):
        stride = 2 if name.endswith(".0") and not name.startswith("layer1") else 1
        bottleneck = f"{name}.conv3.weight" in tensors
        look = F.relu(unit(values, f"{name}.conv1", f"{name}.bn1", 1 if bottleneck else stride))
        look = unit(look, f"{name}.conv2", f"{name}.bn2", stride if bottleneck else 1)
        look = unit(F.relu(look), f"{name}.conv3", f"{name}.bn3") if bottleneck else look
        if f"{name}.downsample.0.weight" in tensors:
            values = unit(values, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        values = F.relu(look + values)
    return values


RESNETS = {  # blocks, expansion (0: two 3x3), parameters as torchvision states them
    "resnet18": ((2, 2, 2, 2), 0, 11_689_512),
    "resnet50": ((3, 4, 6, 3), 4, 25_557_032),
    "resnet101": ((3, 4, 23, 3), 4, 44_549_160),
    "resnet152": ((3, 8, 36, 3), 4, 60_192_808),
}


@pytest.mark.parametrize("name", RESNETS)
def test_resnet_takes_a_checkpoint_with_torchvisions_names(name: str, tmp_path: Path) -> None:
    depth, expansion, parameters = RESNETS[name]
    torch.manual_seed(0)
    tensors = residual_tensors(2, depth, 64, expansion, groups=1)
    assert sum(value.numel() for key, value in tensors.items() if key.endswith(("weight", "bias"))) == parameters
    torch.save(tensors, tmp_path / "resnet.pth")
    network = ResNet(load_user_weights(tmp_path / "resnet.pth"), name)
    pictures = torch.randint(0, 256, (1, 96, 64, 3), dtype=torch.uint8)
    layers = network(pictures)
    width = 512 * (expansion or 1)
    assert layers["grid"].shape == (1, 3, 2, width)
    assert layers["layer3"].shape == (1, 6, 4, width // 2)
    assert network.classify(layers["pooled"]).shape == (1, 1000)
    scaled = (pictures / 255 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    expected = residual_grid(tensors, scaled.permute(0, 3, 1, 2), groups=1).permute(0, 2, 3, 1)
    assert torch.allclose(layers["grid"], expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_a_resnet_of_another_depth_is_refused(tmp_path: Path) -> None:
    tensors = residual_tensors(2, (2, 2, 2, 2), 64, 0, groups=1)
    with pytest.raises(WatchwordError, match="no checkpoint of resnet50"):
        ResNet(tensors, "resnet50")
    with pytest.raises(WatchwordError, match="did you mean 'resnet101'"):
        ResNet(tensors, "resnet100")


def test_resnext3d_takes_haras_checkpoint_as_it_was_saved_from_several_gpus(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tensors = residual_tensors(3, (3, 4, 23, 3), 128, 2, groups=32)
    parallel = {f"module.{name}": value for name, value in tensors.items()}
    torch.save({"epoch": 400, "arch": "resnext-101", "state_dict": parallel}, tmp_path / "resnext-101-kinetics.pth")
    network = ResNeXt3D(load_user_weights(tmp_path / "resnext-101-kinetics.pth"))
    clips = torch.randint(0, 256, (1, 16, 64, 64, 3), dtype=torch.uint8)
    layers = network(clips)
    assert layers["grid"].shape == (1, 1, 2, 2, 2048)
    assert layers["layer3"].shape == (1, 2, 4, 4, 1024)
    assert layers["pooled"].shape == (1, 2048)
    centred = (clips - torch.tensor([114.7748, 107.7354, 99.4750])).permute(0, 4, 1, 2, 3)
    expected = residual_grid(tensors, centred, groups=32).permute(0, 2, 3, 4, 1)
    assert torch.allclose(layers["grid"], expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_c3d_takes_the_ports_checkpoint_and_gives_the_layers_of_dual_afr(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tensors = c3d_tensors()
    torch.save(tensors, tmp_path / "c3d.pickle", _use_new_zipfile_serialization=False)
    network = C3D(load_user_weights(tmp_path / "c3d.pickle"))
    layers = network(torch.randint(0, 256, (1, 32, 112, 112, 3), dtype=torch.uint8))
    assert {name: tuple(values.shape) for name, values in layers.items()} == {
        "pool2": (1, 16, 28, 28, 128),
        "pool3": (1, 8, 14, 14, 256),
        "pool4": (1, 4, 7, 7, 512),
        "pool5": (1, 2, 4, 4, 512),
        "fc6": (1, 2, 4096),
        "fc7": (1, 2, 4096),
    }
    last = network.stages[4](layers["pool4"].permute(0, 4, 1, 2, 3))[:, :, :2].amax(2)  # (1, 512, 7, 7)
    for row, column in ((0, 0), (1, 2), (3, 3)):  # Caffe's blocks begin at the first cell, the last ones are half empty
        block = last[0, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2].amax((1, 2))
        assert torch.allclose(layers["pool5"][0, 0, row, column], block, rtol=1e-4)
    assert torch.allclose(layers["fc6"][..., 0], 1e-4 * layers["pool5"].sum((2, 3, 4)), rtol=1e-3)
    assert network.classify(layers["fc7"]).shape == (1, 2, 487)
    with pytest.raises(WatchwordError, match="C3D needs 16, 32"):
        network(torch.zeros(1, 20, 112, 112, 3))


# --- adapters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "module", "make"),
    [
        ("timm", "timm", lambda: adapters.TimmBackbone("vit")),
        ("open_clip", "open_clip", lambda: adapters.OpenClipBackbone("ViT-B-32:openai")),
        ("torchvision", "torchvision.models.detection", lambda: adapters.TorchvisionDetector("x")),
    ],
)
def test_an_adapter_without_its_package_says_what_to_install(
    package: str, module: str, make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(WatchwordError, match=f"{package} is not installed: pip install {package}"):
        make()


class FakeTimm(torch.nn.Module):
    def forward_features(self, values: Tensor) -> Tensor:
        return F.avg_pool2d(values, 4).repeat(1, 2, 1, 1)

    def forward_head(self, features: Tensor) -> Tensor:
        return features.mean((2, 3))


def test_timm_sees_normalised_pictures_and_its_grid_is_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.ModuleType("timm")
    settings = {"input_size": (3, 8, 8), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    fake.create_model = lambda name, pretrained, num_classes: FakeTimm()  # type: ignore[attr-defined]
    fake.data = types.SimpleNamespace(resolve_model_data_config=lambda network: settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", fake)
    backbone = adapters.TimmBackbone("fake")
    layers = backbone(torch.full((2, 8, 8, 3), 255, dtype=torch.uint8))
    assert backbone.picture_size == 8
    assert layers["grid"].shape == (2, 2, 2, 6)
    assert layers["pooled"].tolist() == [[2.0] * 6] * 2  # (1 - 0.5) / 0.25


def test_a_detectors_boxes_become_parts_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeDetector(torch.nn.Module):
        def forward(self, pictures: list[Tensor]) -> list[dict[str, Tensor]]:
            assert pictures[0].max() <= 1
            boxes, labels = torch.tensor([[0.0, 5.0, 20.0, 10.0]]), torch.tensor([3])
            return [{"boxes": boxes, "scores": torch.tensor([0.9]), "labels": labels} for _ in pictures]

    detection = types.ModuleType("torchvision.models.detection")
    detection.fake = lambda weights: FakeDetector()  # type: ignore[attr-defined]
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    categories = types.SimpleNamespace(meta={"categories": ["nothing", "cat", "dog", "horse"]})
    sys.modules["torchvision.models"].get_model_weights = lambda name: types.SimpleNamespace(DEFAULT=categories)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision.models.detection", detection)
    (found,) = adapters.TorchvisionDetector("fake")(torch.full((1, 10, 20, 3), 255, dtype=torch.uint8))
    assert found["boxes"].tolist() == [[0.0, 0.5, 1.0, 1.0]]
    assert found["classes"].tolist() == [3]
    regions = adapters.TorchvisionDetector("fake").detect(torch.full((2, 10, 20, 3), 255, dtype=torch.uint8), k=3)
    assert regions.boxes[1].tolist() == [[0.0, 0.5, 1.0, 1.0], [0.0] * 4, [0.0] * 4]
    assert regions.mask.tolist() == [[True, False, False]] * 2
    with pytest.raises(WatchwordError, match="torchvision has no detector 'other'"):
        adapters.TorchvisionDetector("other")
