"""Pretrained networks that come as ONNX graphs, run by onnxruntime beside the torch ones.

Two facts that cost time:

* **Inner tensors are made outputs by appending bytes.** Protobuf merges a repeated embedded message, so the bytes of a
  model followed by `graph { output { name } }` are the same model with one more output. No `onnx` package is needed.
* **Integer matrix products saturate on x86 CPUs without VNNI** (AVX2 and older): pairs of u8 x s8 products are added in
  16 bits. CLIP's image vectors are then wrong, without any error: a cat is no longer nearest to "cat".
  `session.x64quantprecision` asks onnxruntime for the exact kernel; on CPUs with VNNI it changes nothing.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from watchword.errors import WatchwordError

GRAPH_FIELD, OUTPUT_FIELD, NAME_FIELD = 7, 12, 1  # of ModelProto, GraphProto, ValueInfoProto


class OnnxGraph:
    """A graph ready to run: images in, named tensors out, one image a call.

    One image a call, because quantisation is dynamic in some graphs: the scale of a tensor is taken over the whole
    batch, so an image's features would depend on the images beside it.
    """

    def __init__(self, path: Path, outputs: dict[str, str], inner: dict[str, str]) -> None:
        names = outputs | inner  # ours -> the graph's own; `inner` are not yet outputs of the graph
        self.names, self.tensors = tuple(names), list(names.values())
        self.session = _session(path, list(inner.values()))
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


def with_outputs(model: bytes, tensors: list[str]) -> bytes:
    """The model with these inner tensors as outputs too."""
    added = b"".join(_field(OUTPUT_FIELD, _field(NAME_FIELD, name.encode())) for name in tensors)
    return model + _field(GRAPH_FIELD, added)


def _field(number: int, payload: bytes) -> bytes:
    """One length-delimited protobuf field."""
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def _session(path: Path, inner: list[str]) -> Any:
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
    options.add_session_config_entry("session.x64quantprecision", "1")  # exact integers: see the top of this file
    try:
        model = with_outputs(path.read_bytes(), inner)
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # onnxruntime has one class for each of its status codes, and no common base
        line = str(error).strip().splitlines()[0]
        raise WatchwordError(
            f"onnxruntime {onnxruntime.__version__} cannot load {path.name}: {line}; pip install -U onnxruntime"
        ) from error
