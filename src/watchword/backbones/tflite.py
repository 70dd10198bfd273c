"""Constants of a TensorFlow Lite file, so that no TensorFlow is needed to use the weights in one.

A .tflite file is a flatbuffer: tables whose fields are found through a small list of offsets (the vtable). Of its
schema we need six fields: Model.subgraphs and .buffers, SubGraph.tensors, Tensor.shape, .type, .buffer and
.quantization. The numbers below are positions in that schema.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from watchword.errors import WatchwordError

DTYPES = {0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 9: np.int8}


@dataclass(frozen=True)
class Constant:
    """A tensor whose values stand in the file, as float32."""

    name: str
    values: Tensor
    quantised: bool  # it was held as integers with a scale


def read_constants(path: Path) -> list[Constant]:
    """All constants of the first graph in the order of the file: a layer's weight, its bias, the next layer's."""
    content = path.read_bytes()
    if content[4:8] != b"TFL3":
        raise WatchwordError(f"{path} is not a TensorFlow Lite file: it does not say TFL3")
    model = _Table(content, struct.unpack_from("<I", content)[0])
    buffers = model.tables(4)
    constants = []
    for tensor in model.tables(2)[0].tables(0):
        data = buffers[tensor.number(2, "I")].array(0, np.uint8)
        kind = tensor.number(1, "b")
        if data.size and kind in DTYPES:
            values = data.view(DTYPES[kind]).reshape(tensor.array(0, np.int32))
            constants.append(_constant(tensor.text(3), values, tensor.table(4)))
    return constants


def _constant(name: str, values: "np.ndarray[Any, Any]", quantisation: "_Table | None") -> Constant:
    floats = torch.from_numpy(values.astype(np.float32))
    scale = quantisation.array(2, np.float32) if quantisation else np.empty(0)
    if quantisation is None or not scale.size:
        return Constant(name, floats, quantised=False)
    shape = [1] * values.ndim
    shape[quantisation.number(6, "i")] = scale.size  # one scale for all, or one for each channel along this axis
    zero = torch.from_numpy(quantisation.array(3, np.int64).astype(np.float32)).view(shape)
    return Constant(name, (floats - zero) * torch.from_numpy(scale.copy()).view(shape), quantised=True)


@dataclass(frozen=True)
class _Table:
    content: bytes
    position: int

    def _field(self, index: int) -> int:
        """Where a field's value stands; 0 when the file leaves it at its default."""
        vtable = self.position - struct.unpack_from("<i", self.content, self.position)[0]
        if 4 + 2 * index >= struct.unpack_from("<H", self.content, vtable)[0]:
            return 0
        offset = struct.unpack_from("<H", self.content, vtable + 4 + 2 * index)[0]
        return self.position + offset if offset else 0

    def _follow(self, position: int) -> int:
        return int(position + struct.unpack_from("<I", self.content, position)[0])

    def number(self, index: int, kind: str) -> int:
        position = self._field(index)
        return int(struct.unpack_from("<" + kind, self.content, position)[0]) if position else 0

    def table(self, index: int) -> "_Table | None":
        position = self._field(index)
        return _Table(self.content, self._follow(position)) if position else None

    def tables(self, index: int) -> list["_Table"]:
        position = self._follow(self._field(index))
        count = struct.unpack_from("<I", self.content, position)[0]
        return [_Table(self.content, self._follow(position + 4 + 4 * entry)) for entry in range(count)]

    def array(self, index: int, dtype: type[np.generic]) -> "np.ndarray[Any, Any]":
        position = self._field(index)
        if not position:
            return np.empty(0, dtype)
        start = self._follow(position)
        return np.frombuffer(self.content, dtype, struct.unpack_from("<I", self.content, start)[0], start + 4)

    def text(self, index: int) -> str:
        return self.array(index, np.uint8).tobytes().decode()
