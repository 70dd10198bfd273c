"""Networks of installed packages: any timm image model, open_clip's picture encoders, torchvision's detectors.

`timm:NAME`, `open_clip:NAME:PRETRAINED` and `torchvision:NAME` are backbones like any other (`features/networks.py`).

Each package is imported when one of its networks is used, not before: its build must match the installed torch, and
beside a CPU torch it often does not. Pictures go in as everywhere here, RGB, 0..255, (B, H, W, 3), of the network's
`picture_size`; they are scaled to the range of its training.
"""

import importlib
import math
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from watchword.backbones.blocks import frozen
from watchword.backbones.regions import Regions
from watchword.errors import WatchwordError


class TimmBackbone(nn.Module):
    """Any image model of timm by its name: `pooled` (B, D), and `grid` (B, H, W, D) where it has one."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        timm = _package("timm")
        try:
            self.network = timm.create_model(name, pretrained=True, num_classes=0)
        except (RuntimeError, ValueError) as error:  # unknown name, unknown weights
            raise WatchwordError(f"timm cannot make {name!r}: {error}; timm.list_models(pretrained=True)") from error
        settings = timm.data.resolve_model_data_config(self.network)
        self.picture_size: int = settings["input_size"][-1]
        self.register_buffer("mean", 255 * torch.tensor(settings["mean"]))
        self.register_buffer("deviation", 255 * torch.tensor(settings["std"]))
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        values = ((pictures.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)
        features = self.network.forward_features(values)
        layers = {"pooled": self.network.forward_head(features)}
        if features.dim() == 4:  # convolutions: (B, D, H, W), for some (B, H, W, D)
            width = layers["pooled"].shape[1]
            layers["grid"] = features.permute(0, 2, 3, 1) if features.shape[1] == width else features
        elif features.dim() == 3:  # a transformer: (B, class token and the like + H * W, D)
            places = features[:, getattr(self.network, "num_prefix_tokens", 1) :]
            side = math.isqrt(places.shape[1])
            if side * side == places.shape[1]:
                layers["grid"] = places.view(len(places), side, side, -1)
        return layers


class OpenClipBackbone(nn.Module):
    """The picture side of a CLIP by NAME:PRETRAINED: `pooled` (B, D), of length one, beside its texts."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, words: str) -> None:
        super().__init__()
        name, _, pretrained = words.partition(":")
        if not pretrained:
            raise WatchwordError(
                f"say which weights of {name}, such as open_clip:{name}:openai; open_clip.list_pretrained()"
            )
        try:
            network, _, _ = _package("open_clip").create_model_and_transforms(name, pretrained=pretrained)
        except (RuntimeError, ValueError) as error:
            raise WatchwordError(
                f"open_clip cannot make {name!r} with {pretrained!r}: {error}; open_clip.list_pretrained()"
            ) from error
        self.network = network
        size = network.visual.image_size
        self.picture_size: int = size if isinstance(size, int) else size[0]
        self.register_buffer("mean", 255 * torch.tensor(network.visual.image_mean))
        self.register_buffer("deviation", 255 * torch.tensor(network.visual.image_std))
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        values = ((pictures.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)
        return {"pooled": self.network.encode_image(values, normalize=True)}


class TorchvisionDetector(nn.Module):
    """A detector of torchvision.models.detection by its name: boxes 0..1, scores and classes, best first."""

    picture_size = 640  # what it is shown; it scales pictures itself

    def __init__(self, name: str) -> None:
        super().__init__()
        detection = _package("torchvision.models.detection")
        if not hasattr(detection, name):
            raise WatchwordError(f"torchvision has no detector {name!r}; one is 'fasterrcnn_resnet50_fpn'")
        self.network = getattr(detection, name)(weights="DEFAULT")
        weights = _package("torchvision.models").get_model_weights(name).DEFAULT
        self.class_names: tuple[str, ...] = tuple(weights.meta["categories"])
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> list[dict[str, Tensor]]:
        height, width = pictures.shape[1:3]
        found: list[dict[str, Any]] = self.network(list(pictures.permute(0, 3, 1, 2).float() / 255))
        side = torch.tensor([width, height, width, height], device=pictures.device)
        return [{"boxes": one["boxes"] / side, "scores": one["scores"], "classes": one["labels"]} for one in found]

    @torch.no_grad()
    def detect(self, pictures: Tensor, k: int = 16) -> Regions:
        """(F, H, W, 3) uint8 -> the k best boxes of each frame."""
        boxes, scores = torch.zeros(len(pictures), k, 4), torch.zeros(len(pictures), k)
        classes, mask = torch.zeros(len(pictures), k, dtype=torch.long), torch.zeros(len(pictures), k, dtype=torch.bool)
        for row, found in enumerate(self(pictures)):
            count = min(k, len(found["scores"]))
            boxes[row, :count], scores[row, :count] = found["boxes"][:count], found["scores"][:count]
            classes[row, :count], mask[row, :count] = found["classes"][:count], True
        return Regions(boxes, scores, classes, mask)


def version(package: str) -> str:
    """Which weights a name stands for is settled by the package's version."""
    return str(getattr(_package(package), "__version__", "of unknown version"))


def _package(name: str) -> ModuleType:
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pip_name = package.replace("open_clip", "open_clip_torch")
        raise WatchwordError(f"{package} is not installed: pip install {pip_name}, built for your torch") from error
    except (RuntimeError, OSError, AttributeError) as error:  # its compiled parts were built for another torch
        line = str(error).strip().splitlines()[0]
        raise WatchwordError(
            f"{package} does not fit torch {torch.__version__} ({line}): install the build of {package} for it"
        ) from error
