"""Networks that a person brings: checkpoints of the papers in their own formats, and packages that they have."""

import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from tests.checkpoints import c3d_tensors, i3d_tensors, residual_tensors, vggish_tensors
from tests.videos import numbered, write_video
from watchword.backbones.resnet import ResNet
from watchword.backbones.weights import load_user_weights
from watchword.cli.main import app
from watchword.downloads import sha256_of
from watchword.errors import WatchwordError
from watchword.features import networks
from watchword.features.extraction import Extraction, prepare
from watchword.features.store import Store
from watchword.video import Squash, Uniform, read_frames


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second and a half, with sound."""
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return write_video(path, [numbered(index) for index in range(38)], tone=440.0, tone_seconds=1.5)


def write_checkpoint(name: str, path: Path) -> Path:
    """As its authors saved it."""
    torch.manual_seed(0)
    if name == "resnet18":
        torch.save(residual_tensors(2, (2, 2, 2, 2), 64, 0, groups=1), path)
    elif name == "resnext3d":
        tensors = residual_tensors(3, (3, 4, 23, 3), 128, 2, groups=32)
        for key in (key for key in tensors if key.endswith("bn3.weight")):
            tensors[key] *= 0.1  # else noise grows from block to block, beyond what half a float can hold
        torch.save({"epoch": 400, "state_dict": {f"module.{key}": value for key, value in tensors.items()}}, path)
    elif name == "c3d":
        torch.save(c3d_tensors(), path, _use_new_zipfile_serialization=False)
    elif name == "i3d_flow":
        torch.save(i3d_tensors(channels=2), path)
    else:
        torch.save(vggish_tensors(), path)
    return path


@pytest.mark.parametrize(
    ("name", "file", "streams", "words", "shapes"),
    [
        ("resnet18", "resnet18.pth", "appearance,appearance_grid", ["time_steps=2"],
         {"appearance": (2, 1, 512), "appearance_grid": (2, 49, 512)}),
        ("c3d", "c3d.pickle", "motion,motion_layers", ["time_steps=1"],
         {"motion": (1, 1, 4096), "motion_layers.1": (1, 49, 128), "motion_layers.3": (1, 49, 512),
          "motion_layers.4": (1, 16, 512), "motion_layers.5": (1, 1, 4096)}),
        ("resnext3d", "resnext-101-kinetics.pth", "motion,motion_grid", ["time_steps=1"],
         {"motion": (1, 1, 2048), "motion_grid": (1, 16, 2048)}),
        ("i3d_flow", "flow_imagenet.pt", "flow,flow_grid", ["time_steps=1", "pixels=64"],
         {"flow": (1, 1, 1024), "flow_grid": (1, 4, 2048)}),  # 64 pixels are 2 x 2 cells, two halves of 1024
        ("vggish", "vggish-10086976.pth", "audio", [], {"audio": (1, 1, 128)}),
    ],
)  # fmt: skip
def test_a_users_checkpoint_goes_through_extraction(
    name: str,
    file: str,
    streams: str,
    words: list[str],
    shapes: dict[str, tuple[int, ...]],
    video: Path,
    tmp_path: Path,
) -> None:
    checkpoint = write_checkpoint(name, tmp_path / file)
    words = [f"backbone={name}", f"weights={checkpoint}", *words]
    settings = [part for stream in streams.split(",") for word in words for part in ("--settings", f"{stream}.{word}")]
    command = ["features", "extract", str(video), "--store", str(tmp_path / "store"), "--streams", streams, *settings]
    done = CliRunner().invoke(app, [*command, "--workers", "1"])
    assert done.exit_code == 0, done.output
    for stream, shape in shapes.items():
        arrays = Store(tmp_path / "store").read("clip", stream)
        assert arrays.values.shape == shape
        assert np.isfinite(arrays.values).all()
        assert np.abs(arrays.values).max() > 0
        assert sha256_of(checkpoint) in str(arrays.provenance)


def test_extraction_runs_a_users_network_on_the_frames_and_stores_its_output(video: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint("resnet18", tmp_path / "resnet18.pth")
    words = ["appearance.backbone=resnet18", f"appearance.weights={checkpoint}", "appearance.time_steps=2"]
    found = Extraction(prepare(tmp_path, ["appearance"], words)).arrays(video, ["appearance"], [])["appearance"]
    frames = read_frames(video, Uniform(2), Squash(224, 224))
    expected = ResNet(load_user_weights(checkpoint), "resnet18")(torch.from_numpy(frames.pictures))["pooled"]
    np.testing.assert_allclose(found.values[:, 0], expected.numpy(), rtol=2e-3, atol=2e-3)


def test_a_checkpoint_of_another_network_is_one_line_before_the_first_video(video: Path, tmp_path: Path) -> None:
    checkpoint = write_checkpoint("resnet18", tmp_path / "resnet18.pth")
    words = ["--settings", "appearance.backbone=resnet50", "--settings", f"appearance.weights={checkpoint}"]
    command = ["features", "extract", str(video), "--store", str(tmp_path / "store"), "--streams", "appearance", *words]
    with pytest.raises(WatchwordError, match="no checkpoint of resnet50"):
        CliRunner().invoke(app, [*command, "--workers", "1"], catch_exceptions=False, standalone_mode=False)


# --- packages that people have --------------------------------------------------------------------------------------


class Colours(nn.Module):
    """A picture network for tests: its grid is the picture in 2 x 2 cells."""

    num_prefix_tokens = 1
    visual = SimpleNamespace(image_size=32, image_mean=(0.0,) * 3, image_std=(1 / 255,) * 3)

    def forward_features(self, values: Tensor) -> Tensor:  # as a transformer does: a class token, then the places
        places = nn.functional.adaptive_avg_pool2d(values, 2).flatten(2).transpose(1, 2)
        return torch.cat([places.mean(1, keepdim=True), places], 1)

    def forward_head(self, features: Tensor) -> Tensor:
        return features[:, 0]

    def encode_image(self, values: Tensor, normalize: bool) -> Tensor:
        assert normalize
        return values.mean((2, 3))


class Boxes(nn.Module):
    def forward(self, pictures: list[Tensor]) -> list[dict[str, Tensor]]:
        side = pictures[0].shape[1]
        boxes = torch.tensor([[0.0, 0.0, side / 2, side]])
        return [{"boxes": boxes, "scores": torch.tensor([0.75]), "labels": torch.tensor([1])} for _ in pictures]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Any:
    """timm, open_clip and torchvision as far as we call them."""
    modules = {name: types.ModuleType(name) for name in ("timm", "open_clip", "torchvision", "torchvision.models")}
    fakes: dict[str, Any] = {**modules, "torchvision.models.detection": types.ModuleType("detection")}
    for name, module in fakes.items():
        module.__version__ = "1.2"
        monkeypatch.setitem(sys.modules, name, module)
    config = {"input_size": (3, 32, 32), "mean": (0.0,) * 3, "std": (1 / 255,) * 3}
    fakes["timm"].create_model = lambda name, pretrained, num_classes: Colours()
    fakes["timm"].data = SimpleNamespace(resolve_model_data_config=lambda network: config)
    fakes["open_clip"].create_model_and_transforms = lambda name, pretrained: (Colours(), None, None)
    fakes["torchvision.models.detection"].boxes = lambda weights: Boxes()
    names = SimpleNamespace(DEFAULT=SimpleNamespace(meta={"categories": ["nothing", "left half"]}))
    fakes["torchvision.models"].get_model_weights = lambda name: names
    networks._adapted.cache_clear()
    yield fakes
    networks._adapted.cache_clear()


def streams_of(video: Path, streams: list[str], words: list[str]) -> Any:
    return Extraction(prepare(Path("nowhere"), streams, words)).arrays(video, streams, [])


def test_a_timm_model_is_a_backbone_like_any_other(video: Path, packages: Any) -> None:
    streams, words = ["appearance", "appearance_grid"], ["backbone=timm:tiny", "time_steps=2"]
    found = streams_of(video, streams, [f"{stream}.{word}" for stream in streams for word in words])
    expected = read_frames(video, Uniform(2), Squash(32, 32)).pictures.mean((1, 2), dtype=np.float64)  # of its own size
    np.testing.assert_allclose(found["appearance"].values[:, 0], expected, rtol=2e-3)
    assert found["appearance_grid"].values.shape == (2, 4, 3)
    settings = prepare(Path("nowhere"), ["appearance"], [f"appearance.{words[0]}"]).settings("appearance")
    assert settings["pixels"] == 32
    assert settings["weights"] == "timm 1.2"  # another version may bring other weights: part of the key


def test_a_clip_of_open_clip_gives_vectors_and_says_that_it_has_no_grid(video: Path, packages: Any) -> None:
    word = "backbone=open_clip:ViT-B-32:openai"
    assert streams_of(video, ["appearance"], [f"appearance.{word}"])["appearance"].values.shape == (28, 1, 3)
    with pytest.raises(WatchwordError, match="no grid: take appearance"):
        streams_of(video, ["appearance_grid"], [f"appearance_grid.{word}"])
    with pytest.raises(WatchwordError, match="say which weights of ViT-B-32"):
        prepare(Path("nowhere"), ["appearance"], ["appearance.backbone=open_clip:ViT-B-32"])


def test_a_torchvision_detector_finds_regions_for_any_backbone(video: Path, packages: Any) -> None:
    words = ["backbone=torchvision:boxes", "region_backbone=timm:tiny", "time_steps=1", "regions=3"]
    regions = streams_of(video, ["regions"], [f"regions.{word}" for word in words])["regions"]
    assert regions.values.shape == (1, 3, 3)
    assert regions.boxes[0, 0].tolist() == [0, 0, 0.5, 1]
    assert regions.mask[0].tolist() == [True, False, False]
    assert regions.provenance["things"] == "left half 0.75"


@pytest.mark.parametrize(
    ("stream", "word", "message"),
    [
        ("appearance", "backbone=timm:tiny", "timm is not installed: pip install timm"),
        ("appearance", "backbone=open_clip:ViT-B-32:openai", "pip install open_clip_torch"),
        ("regions", "backbone=torchvision:boxes", "torchvision is not installed"),
        ("regions", "backbone=timm:tiny", "unknown detector 'timm:tiny'"),
        ("motion", "backbone=timm:tiny", "unknown motion network 'timm:tiny'"),
    ],
)
def test_a_package_that_is_missing_or_does_something_else_is_one_line(
    stream: str, word: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("timm", "open_clip", "torchvision", "torchvision.models.detection"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(WatchwordError, match=message):
        prepare(Path("nowhere"), [stream], [f"{stream}.{word}"])


def test_a_package_brings_its_own_weights(packages: Any) -> None:
    with pytest.raises(WatchwordError, match="brings its own weights"):
        prepare(Path("nowhere"), ["appearance"], ["appearance.backbone=timm:tiny", "appearance.weights=mine.pth"])
