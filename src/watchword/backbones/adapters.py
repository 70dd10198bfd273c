"""Networks that people already have: any timm image model, open_clip's picture encoders, torchvision's detectors.

Each package is imported when it is asked for, never before: their builds must match the installed torch, and beside a
CPU torch they often do not. Pictures go in as everywhere here, RGB, 0..255, (B, H, W, 3), and are scaled to what the
network was trained on; give pictures of its `picture_size`.
"""

import importlib
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from watchword.backbones.blocks import frozen
from watchword.errors import WatchwordError


class TimmEye(nn.Module):
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
        return layers


class OpenClipEye(nn.Module):
    """The picture side of a CLIP: `pooled` (B, D), of length one, beside its texts."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, name: str, pretrained: str) -> None:
        super().__init__()
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

    def __init__(self, name: str) -> None:
        super().__init__()
        detection = _package("torchvision.models.detection")
        if not hasattr(detection, name):
            raise WatchwordError(f"torchvision has no detector {name!r}; one is 'fasterrcnn_resnet50_fpn'")
        self.network = getattr(detection, name)(weights="DEFAULT")
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> list[dict[str, Tensor]]:
        height, width = pictures.shape[1:3]
        found: list[dict[str, Any]] = self.network(list(pictures.permute(0, 3, 1, 2).float() / 255))
        side = torch.tensor([width, height, width, height])
        return [{"boxes": one["boxes"] / side, "scores": one["scores"], "classes": one["labels"]} for one in found]


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
