"""The networks that streams may be made with, and the names of their layers."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from watchword.backbones.adapters import OpenClipBackbone, TimmBackbone, TorchvisionDetector, version
from watchword.backbones.audio import Vggish, YamNet
from watchword.backbones.c3d import C3D
from watchword.backbones.efficientnet_lite import SCALES, EfficientNetLite
from watchword.backbones.formats import Tensors
from watchword.backbones.i3d import I3D, LAYERS
from watchword.backbones.regions import SIZE, YoloTiny
from watchword.backbones.resnet import DEPTHS, ResNet, ResNeXt3D
from watchword.backbones.vision_transformers import CLIP_BLOCKS, IMAGE_SIZE, ClipVitB16, DinoV2S14, TinyVit5M
from watchword.backbones.weights import WEIGHTS, load_user_weights, load_weights, weights_file
from watchword.errors import WatchwordError, unknown
from watchword.precision import choose_precision


@dataclass(frozen=True)
class Backbone:
    """How to build a network, and where in its answer a stream finds what it keeps."""

    build: Callable[..., nn.Module]  # from named tensors, or from the path of a graph and a device
    pixels: int = 0  # a side, as trained
    pooled: str = "pooled"
    grid: str = "grid"
    layers: tuple[str, ...] = ()  # several depths, the earliest first
    is_graph: bool = False  # ONNX, run by onnxruntime; its images have the one size


IMAGE_BACKBONES = {
    **{
        name: Backbone(partial(EfficientNetLite, name=name), scale.picture_size, layers=("stage5", "stage7", "grid"))
        for name, scale in SCALES.items()
    },
    **{name: Backbone(partial(ResNet, name=name), 224, layers=("layer3", "grid")) for name in DEPTHS},
    "clip_vit_b16": Backbone(ClipVitB16, IMAGE_SIZE, layers=CLIP_BLOCKS, is_graph=True),
    "dinov2_s14": Backbone(DinoV2S14, IMAGE_SIZE, is_graph=True),
    "tiny_vit_5m": Backbone(TinyVit5M, IMAGE_SIZE, is_graph=True),
}
WINDOW_BACKBONES = {
    "i3d": Backbone(I3D, 224, grid="Mixed_5c", layers=LAYERS),
    "c3d": Backbone(C3D, 112, pooled="fc7", grid="pool5", layers=("pool2", "pool3", "pool4", "pool5", "fc7")),
    "resnext3d": Backbone(ResNeXt3D, 112, layers=("layer3", "grid")),
}
FLOW_BACKBONES = {
    "histogram": Backbone(lambda tensors: nn.Identity(), 112),
    "i3d_flow": Backbone(partial(I3D, channels=2), 224, grid="Mixed_5c", layers=LAYERS),
}
DETECTORS = {"yolov4_tiny": Backbone(YoloTiny, SIZE)}
AUDIO_BACKBONES = {"yamnet": Backbone(YamNet), "vggish": Backbone(Vggish)}
WITHOUT_WEIGHTS = {"histogram"}
ADAPTERS: dict[str, tuple[Mapping[str, Backbone], Callable[[str], Any]]] = {  # what they stand beside; how to make one
    "timm": (IMAGE_BACKBONES, TimmBackbone),
    "open_clip": (IMAGE_BACKBONES, OpenClipBackbone),
    "torchvision": (DETECTORS, TorchvisionDetector),
}


def fingerprint(name: str, weights: str) -> str:
    """What stands for the weights in a store's key: the sha256 of the file that they come from."""
    package, colon, _ = name.partition(":")
    if colon and weights:
        raise WatchwordError(f"{name} brings its own weights: leave weights={weights} out")
    if colon:
        return f"{package} {version(package)}"
    if weights:
        try:
            with open(weights, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise WatchwordError(f"cannot read the weights {weights}: {error.strerror or error}") from error
    if name in WITHOUT_WEIGHTS:
        return ""
    if name not in WEIGHTS:
        raise WatchwordError(
            f"no package carries the weights of {name}: give your checkpoint, --settings STREAM.weights=FILE "
            "(docs/reference/features.md says where it comes from)"
        )
    return WEIGHTS[name].sha256


def find_device(name: str) -> torch.device:
    """`cpu`, `cuda`, `cuda:1`; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise WatchwordError(f"unknown device {name!r}: expected cpu, cuda, cuda:1 or auto") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise WatchwordError(f"torch finds no device {name} on this machine: use cpu, or auto")
    return device


def run_on(network: nn.Module, device: torch.device) -> nn.Module:
    """The network computes there; its callers give and get tensors of the CPU."""
    network.register_forward_pre_hook(lambda module, inputs: _moved(inputs, device))
    network.register_forward_hook(lambda module, inputs, outputs: _moved(outputs, torch.device("cpu")))
    return network.to(device)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_moved(item, device) for item in value)
    return value.to(device)


class Networks:
    """Networks by name and sha256 of their weights, each built when it is first wanted."""

    def __init__(self, checkpoints: Mapping[str, Path], device: str = "cpu") -> None:
        self.checkpoints = checkpoints  # users' files by their sha256
        self.device = find_device(device)
        self.built: dict[tuple[Backbone, str, str | None], nn.Module] = {}

    def get(self, table: Mapping[str, Backbone], name: str, weights: str, precision: str | None = None) -> nn.Module:
        backbone = find("network", table, name)
        key = backbone, weights, precision
        if key not in self.built:
            source = self._source(backbone, name, weights)
            if backbone.is_graph:  # onnxruntime takes arrays of the CPU, and computes where it can
                self.built[key] = backbone.build(source, device=self.device.type)
            else:
                dtype: torch.dtype = getattr(torch, choose_precision(precision or "float32"))
                self.built[key] = run_on(backbone.build(source).to(dtype), self.device)
        return self.built[key]

    def _source(self, backbone: Backbone, name: str, weights: str) -> Tensors | Path:
        if name in WITHOUT_WEIGHTS or ":" in name:
            return {}
        if weights not in self.checkpoints:
            try:
                return weights_file(name) if backbone.is_graph else load_weights(name)
            except WatchwordError as error:
                raise type(error)(f"{error}; get them beforehand with: watchword weights get {name}") from error
        path = self.checkpoints[weights]
        if fingerprint(name, str(path)) != weights:
            raise WatchwordError(f"{path} has changed since the extraction began: begin again")
        return path if backbone.is_graph else load_user_weights(path)


def find(kind: str, table: Mapping[str, Backbone], name: str) -> Backbone:
    """A network of the table, or one of a package that people have: `timm:NAME`."""
    package, colon, _ = name.partition(":")
    if colon and package in ADAPTERS and ADAPTERS[package][0] is table:
        return _adapted(name)
    if name not in table:
        offers = [f"{package}:NAME" for package, (beside, _) in ADAPTERS.items() if beside is table]
        raise unknown(kind, name, [*table, *offers])
    return table[name]


@cache
def _adapted(name: str) -> Backbone:
    """Built at once: the size of its pictures is known only then."""
    package, _, rest = name.partition(":")
    network = ADAPTERS[package][1](rest)
    return Backbone(lambda tensors: network, network.picture_size)
