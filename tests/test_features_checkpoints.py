"""Networks that a person brings: checkpoints of the papers in their own formats, and packages that they have."""

import re
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
from tests.conftest import noise_stream
from tests.videos import numbered, write_video
from watchword.backbones.c3d import REACH, STRIDES, pooled
from watchword.backbones.resnet import ResNet
from watchword.backbones.weights import load_user_weights
from watchword.cli.main import app
from watchword.config import find_recipe, read_recipe
from watchword.data.dataset import Features, pad_streams
from watchword.downloads import sha256_of
from watchword.errors import WatchwordError
from watchword.features import networks
from watchword.features.extraction import Extraction, prepare
from watchword.features.extractors import EXTRACTORS
from watchword.features.samplers import Extracted, VideoSampler, WindowSampler
from watchword.features.specs import WindowSpec
from watchword.features.store import Store
from watchword.layers.alignment import convolution, pooling, seen_through
from watchword.models import build_model
from watchword.types import Frames
from watchword.video import Squash, Timeline, Uniform, read_frames

ROOT = Path(__file__).parents[1]


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


@pytest.fixture(scope="module")
def c3d_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Ten frames that grow lighter by 8 a frame, and by 1 every 8 columns; weights that copy red."""
    folder = tmp_path_factory.mktemp("c3d")
    columns = np.arange(112) // 8
    pictures = [np.broadcast_to((40 + 8 * frame + columns)[None, :, None], (112, 112, 3)) for frame in range(10)]
    grey = [np.ascontiguousarray(picture, np.uint8) for picture in pictures]
    lossless: Any = {"pixels": "yuv444p", "options": {"crf": "0"}}
    write_video(folder / "clip.mp4", grey, [500 * frame for frame in range(10)], **lossless)
    torch.save(copying_c3d(), folder / "c3d.pickle")
    settings = ["backbone=c3d", f"weights={folder / 'c3d.pickle'}", "clip=video", "frame_rate=2", "mean=10,20,30"]
    words = [part for setting in settings for part in ("--settings", f"motion_layers.{setting}")]
    command = ["features", "extract", str(folder / "clip.mp4"), "--store", str(folder / "store")]
    done = CliRunner().invoke(app, [*command, "--streams", "motion_layers", *words, "--workers", "1"])
    assert done.exit_code == 0, done.output
    return Store(folder / "store")


class TestAWholeVideoThroughC3D:
    """dualAFR's features: the maps of the whole video, two frames a second, and fc7 in windows of 16 that share 8."""

    def test_layers_are_as_large_as_the_appendix_says(self, c3d_store: Store) -> None:
        found = [c3d_store.read("clip", f"motion_layers.{layer}").values.shape for layer in (1, 2, 3, 4, 5)]
        assert found == [(5, 784, 128), (3, 196, 256), (2, 49, 512), (1, 16, 512), (1, 1, 4096)]

    @pytest.mark.parametrize(("layer", "stride", "side"), [(1, 2, 28), (2, 4, 14), (3, 8, 7), (4, 16, 4)])
    def test_a_cell_has_the_lightest_of_its_frames_and_columns(
        self, c3d_store: Store, layer: int, stride: int, side: int
    ) -> None:
        arrays = c3d_store.read("clip", f"motion_layers.{layer}")
        frames = np.minimum(stride * (np.arange(len(arrays.values)) + 1), 10) - 1  # the last of each step
        columns = np.minimum(2 ** (layer + 1) * (np.arange(side) + 1), 112) - 1  # Caffe's pool5: 32, 64, 96, 112
        expected = 40 + 8 * frames[:, None] + columns // 8 - 10  # the mean's red
        values = arrays.values[:, :, 0].astype(np.float32).reshape(-1, side, side)
        np.testing.assert_allclose(values, np.repeat(expected[:, None], side, 1), atol=2.5)
        assert not arrays.values[:, :, 1:].any()
        middles = [(begin + min(begin + stride, 10) - 1) / 4 for begin in range(0, 10, stride)]  # two frames a second
        np.testing.assert_allclose(arrays.times, middles, atol=1e-3)

    def test_fc7_is_the_mean_of_pool5s_cells(self, c3d_store: Store) -> None:
        """The last of the ten frames is repeated until there are 16."""
        arrays = c3d_store.read("clip", "motion_layers.5")
        expected = 40 + 8 * 9 + np.mean([3, 7, 11, 13]) - 10
        np.testing.assert_allclose(arrays.values[:, 0, 5].astype(np.float32), [expected], atol=2.5)

    def test_the_recipe_reads_them(self, c3d_store: Store) -> None:
        recipe = read_recipe(find_recipe("msvd/dual_afr_c3d"), ["model.feature_size=8"])  # narrow, to be quick
        streams = Features(c3d_store, recipe.data).read(["clip"])
        widths = {name: stream.values.shape[-1] for name, stream in streams.items()}
        model = build_model(recipe.model, widths, 9)
        memory, state = model.encode(streams)
        assert memory["values"].shape == (1, 16, 4 * 8)
        assert memory["mask"].all()
        assert state["hidden"].shape == (1, 1, 512)
        page = (ROOT / "docs/reference/features.md").read_text().partition("C3D as in dualAFR")[2]
        command = " ".join(page.partition("```\n")[2].partition("```")[0].replace("\\\n", " ").split())
        assert recipe.data.made_by == command, "the recipe names the command of the page"


def copying_c3d() -> dict[str, Tensor]:
    """Convolutions that copy the first channel; fc6 is the mean of that channel's cells, fc7 the mean of fc6."""
    tensors = c3d_tensors()
    for tensor in tensors.values():
        if tensor.dim() == 5:
            tensor.zero_()[0, 0, 1, 1, 1] = 1
    tensors["fc6.weight"] = torch.full((1, 1), 1 / 16).expand(4096, 8192)
    tensors["fc7.weight"] = torch.full((1, 1), 1 / 4096).expand(4096, 4096)
    return tensors


def test_pool5_begins_at_the_first_cell_and_rounds_up_as_caffe_does() -> None:
    rows, columns = torch.meshgrid(torch.arange(7.0), torch.arange(7.0), indexing="ij")
    values = torch.stack([rows + 10 * columns + 100 * step for step in range(3)]).view(1, 1, 3, 7, 7)
    found = pooled(values, 5)[0, 0]
    lowest, rightmost = torch.meshgrid(torch.tensor([1.0, 3, 5, 6]), torch.tensor([1.0, 3, 5, 6]), indexing="ij")
    assert torch.equal(found, torch.stack([lowest + 10 * rightmost + 100 * step for step in (1, 2)]))


def test_pieces_of_a_long_video_are_those_of_the_whole() -> None:
    """A network that reaches as far as C3D, on 150 frames that come 16 at a time."""
    values = torch.rand(150, generator=torch.Generator().manual_seed(0)) * 255
    pictures = values.to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 1, 3).numpy()
    timeline = Timeline(np.arange(150) / 2, 75.0)

    def network(clips: Tensor, fully_connected: bool = True) -> dict[str, Tensor]:
        signal = clips[:, :, 0, 0, 0].float()
        if fully_connected:
            return {name: signal.sum(1).view(1, 1, 1) for name in ("fc6", "fc7")}
        seen = torch.nn.functional.conv1d(signal, torch.ones(1, 1, 2 * REACH + 1), padding=REACH)
        pools = {name: torch.nn.functional.max_pool1d(seen, stride, ceil_mode=True) for name, stride in STRIDES.items()}
        return {name: pool.view(1, -1, 1, 1, 1) for name, pool in pools.items()}

    sampler = object.__new__(VideoSampler)
    sampler.spec = WindowSpec(backbone="c3d", clip="video", frame_rate=2)
    sampler.backbone, sampler.network = networks.WINDOW_BACKBONES["c3d"], network  # type: ignore[assignment]
    sampler.seen = (0.0, 0.0, 1.0, 1.0)
    times = sampler.times(timeline)
    parts = [
        part
        for begin in range(0, 150, 16)
        for part in sampler.see(Frames(pictures[begin : begin + 16], times[begin : begin + 16]))
    ]
    assert len(parts) == 3
    whole = network(torch.from_numpy(pictures.copy()).unsqueeze(0), fully_connected=False)
    for name, expected in whole.items():
        torch.testing.assert_close(torch.cat([part.layers[name] for part in parts], 1), expected)
    begins = [0, *range(8, 142, 8)]
    sums = torch.stack([torch.from_numpy(pictures[np.arange(b, b + 16).clip(max=149), 0, 0, 0]).sum() for b in begins])
    torch.testing.assert_close(torch.cat([part.layers["fc7"] for part in parts], 1).flatten(), sums.float())
    assert [len(part.layer_times["fc7"]) for part in parts] == [8, 8, 2]


def test_a_step_of_c3ds_last_layer_depends_on_no_more_frames_than_a_piece_has_around_it() -> None:
    halved = [pooling(2), convolution(3), convolution(3)]  # pool5 over conv5b and conv5a, and so on
    seen = seen_through(
        *halved, *halved, *halved, pooling(2), convolution(3), convolution(3)
    )  # pool1 leaves time alone
    assert (-15 - seen.first, seen.last) == (REACH, REACH)  # beside its own 16 frames


def test_i3ds_stages_are_kept_as_large_as_they_are(video: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    torch.save(i3d_tensors(channels=3), tmp_path / "rgb_imagenet.pt")
    settings = ["backbone=i3d", f"weights={tmp_path / 'rgb_imagenet.pt'}", "pixels=112", "maps=own", "time_steps=2"]
    words = [f"motion_layers.{setting}" for setting in settings]
    extraction = Extraction(prepare(tmp_path, ["motion_layers"], words))
    found = extraction.arrays(video, ["motion_layers"], [])
    assert [found[f"motion_layers.{layer}"].values.shape for layer in (1, 2, 3, 4)] == [
        (16, 784, 192), (16, 196, 480), (8, 49, 832), (4, 16, 1024)
    ]  # fmt: skip
    centre = found["motion_layers.4"].times[:2].mean()
    np.testing.assert_allclose(found["motion_layers.1"].times[:8] - centre, (np.arange(8) - 3.5) / 4, atol=1e-6)
    streams = {name: pad_streams([arrays]) for name, arrays in found.items()} | {"top": noise_stream([2], 1, 5)}
    shapes = [[8, 28, 28], [8, 14, 14], [4, 7, 7], [2, 4, 4]]
    settings = {"name": "dual_afr", "shapes": shapes, "hidden_size": 4, "embedding_size": 4, "feature_size": 4}
    model = build_model(settings, {name: stream.values.shape[-1] for name, stream in streams.items()}, 9)
    assert model.encode(streams)[0]["values"].shape == (1, 4 * 16, 4 * 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["clip=video"], "clip is a setting of the backbone c3d, not of i3d"),
        (["mean=102,98,90"], "mean is a setting of the backbone c3d"),
        (["backbone=c3d", "clip=video", "time_steps=3"], "clip=video reads the whole video: leave time_steps out"),
        (["backbone=c3d", "clip=video", "frames=32"], "clip=video has windows of 16 frames"),
        (["backbone=c3d", "mean=red"], "mean"),
        (["maps=large"], "maps"),
    ],
)
def test_settings_of_whole_videos_that_cannot_be_are_one_line(words: list[str], message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        prepare(Path("nowhere"), ["motion_layers"], [f"motion_layers.{word}" for word in words])


def test_fc6_may_stand_for_a_window(tmp_path: Path) -> None:
    layers = {"fc6": torch.full((1, 1, 3), 6.0), "fc7": torch.full((1, 1, 3), 7.0)}
    for vector, expected in (("", 7.0), ("fc6", 6.0)):
        seen = Extracted(np.zeros(1), layers, networks.WINDOW_BACKBONES["c3d"], vector=vector)
        assert (EXTRACTORS["motion"].keep(seen)[""].values == expected).all()
    (tmp_path / "c3d.pickle").write_bytes(b"weights")
    words = ["motion.backbone=c3d", f"motion.weights={tmp_path / 'c3d.pickle'}", "motion.vector=fc6"]
    spec = prepare(tmp_path, ["motion"], words).specs["motion"]
    sampler = object.__new__(WindowSampler)
    sampler.spec, sampler.backbone = spec, networks.WINDOW_BACKBONES["c3d"]  # type: ignore[assignment]
    sampler.seen = (0.0, 0.0, 1.0, 1.0)
    assert sampler.extracted(np.zeros(1), layers).vector == "fc6"


def test_ha_ils_features_are_at_the_same_frames_by_the_command_of_its_page(
    packages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty frames, eight apart, with fc6 and with objects in every one of them."""
    page = (ROOT / "docs/papers/hierarchical.md").read_text()
    block = page.partition("## The paper's features")[2].partition("```")[2].partition("```")[0]
    (streams,) = re.findall(r"--streams (\S+)", block)
    monkeypatch.chdir(tmp_path)
    for name in ("resnet101.pth", "c3d.pickle"):
        Path(name).write_bytes(name.encode())
    packages["torchvision.models.detection"].fasterrcnn_resnet50_fpn = lambda weights: Boxes()
    job = prepare(tmp_path, streams.split(","), re.findall(r"--settings (\S+)", block))
    specs: Any = job.specs
    for frames, steps in ((400, 40), (80, 10)):
        timeline = Timeline(np.arange(frames) / 25, frames / 25)
        times = [specs[stream].instants(timeline).tolist() for stream in ("appearance", "motion", "regions")]
        assert len(times[0]) == steps
        assert times[0] == times[1] == times[2]
    assert specs["motion"].vector == "fc6"
    assert specs["regions"].regions == 16
    assert specs["regions"].region_weights == specs["appearance"].weights == sha256_of(Path("resnet101.pth"))


def test_new_settings_of_windows_change_no_key_of_a_store() -> None:
    settings = prepare(Path("nowhere"), ["motion_layers"], []).settings("motion_layers")
    assert not {"clip", "maps", "vector", "mean"} & set(settings)


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
