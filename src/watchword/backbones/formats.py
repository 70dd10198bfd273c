"""Checkpoint files to named tensors, without executing code of a file.

A pickle is a program. Two kinds of checkpoints are pickles all the same: PyTorch's `.pth`, read here by torch's own
`weights_only` reader, and dictionaries of numpy arrays, read by an unpickler that accepts three names of numpy, and for
these three puts classes of ours in place of numpy's. Any other name in the file ends the reading.
"""

import collections
import math
import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from watchword.errors import WatchwordError

Tensors = dict[str, Tensor]


def read_safetensors(path: Path) -> Tensors:
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, ValueError) as error:
        raise WatchwordError(f"cannot read {path}: not a whole safetensors file ({error})") from error


def read_torch(path: Path) -> Tensors:
    """A state dictionary: as it is, under `state_dict` or `model`, with or without DataParallel's `module.`."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise WatchwordError(
            f"cannot read {path}: it is damaged or holds more than tensors, and opening it could run code; "
            "save the network's state_dict() alone, best as safetensors"
        ) from error
    except Exception as error:  # whatever a damaged file makes of torch's reader
        raise WatchwordError(f"cannot read {path}: not a PyTorch checkpoint ({_first_line(error)})") from error
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not any(isinstance(value, Tensor) for value in content.values()):
        raise WatchwordError(f"cannot read {path}: no state dictionary in it; save the network's state_dict()")
    return {str(name).removeprefix("module."): value for name, value in content.items() if isinstance(value, Tensor)}


def read_pickled_arrays(path: Path) -> Tensors:
    """Nested dictionaries of numpy arrays; the names of the levels are joined by `/`."""
    try:
        with path.open("rb") as file:
            content = _ArrayUnpickler(file).load()
        return {name: torch.from_numpy(array.copy()) for name, array in _flatten(content, "")}
    except WatchwordError as error:
        raise WatchwordError(f"cannot read {path}: {error}") from error
    except OSError:
        raise
    except Exception as error:  # bytes that are no pickle raise almost anything
        raise WatchwordError(f"cannot read {path}: not a pickle of plain arrays ({_first_line(error)})") from error


class _PlainType:
    """In the place of numpy.dtype: a plain number and its byte order, nothing with fields or objects in it."""

    def __init__(self, code: str, *_flags: object) -> None:
        if code not in {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1"}:
            raise WatchwordError(f"arrays of {code!r} are not plain numbers")
        self.code, self.order = code, "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = {"<": "<", ">": ">", "|": ""}[state[1]]

    @property
    def plain(self) -> "np.dtype[Any]":
        return np.dtype(self.order + self.code)


class _PlainArray:
    """In the place of numpy.ndarray: bytes with a shape."""

    array: "np.ndarray[Any, Any]"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, kind, column_major, content = state
        if not isinstance(kind, _PlainType) or len(content) != math.prod(shape) * kind.plain.itemsize:
            raise WatchwordError(f"an array of shape {shape} does not match its bytes")
        array = np.frombuffer(content, kind.plain).reshape(shape, order="F" if column_major else "C")
        self.array = array.astype(kind.plain.newbyteorder("="), copy=False)


def _reconstruct(*_what: object) -> _PlainArray:
    return _PlainArray()


class _ArrayUnpickler(pickle.Unpickler):
    known = {  # noqa: RUF012 a table, read only
        ("numpy", "dtype"): _PlainType,
        ("numpy", "ndarray"): _PlainArray,
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,  # numpy 2
        ("collections", "OrderedDict"): collections.OrderedDict,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.known:
            raise WatchwordError(f"it asks for {module}.{name}, which is no array; not opened any further")
        return self.known[module, name]


def _flatten(content: object, prefix: str) -> list[tuple[str, "np.ndarray[Any, Any]"]]:
    if isinstance(content, _PlainArray):
        return [(prefix, content.array)]
    if not isinstance(content, dict):
        raise WatchwordError(f"{prefix or 'the top'} is a {type(content).__name__}, neither array nor dictionary")
    return [
        found for name, value in content.items() for found in _flatten(value, f"{prefix}/{name}" if prefix else name)
    ]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


# --- TensorFlow Lite -------------------------------------------------------------------------------------------------


DTYPES = {0: np.float32, 1: np.float16, 2: np.int32, 3: np.uint8, 4: np.int64, 9: np.int8}


@dataclass(frozen=True)
class Constant:
    """A tensor whose values stand in the file, as float32."""

    name: str
    values: Tensor
    quantised: bool  # it was held as integers with a scale


def read_constants(path: Path) -> list[Constant]:
    """All constants of the first graph in the order of the file: a layer's weight, its bias, the next layer's.

    A .tflite file is a flatbuffer: tables whose fields are found through a small list of offsets (the vtable). Of its
    schema we need six fields: Model.subgraphs and .buffers, SubGraph.tensors, Tensor.shape, .type, .buffer and
    .quantization. The numbers below are positions in that schema. No TensorFlow is needed.
    """
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
