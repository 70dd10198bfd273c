"""Optical flow between consecutive frames: how many pixels everything moved, for the flow stream of I3D.

`flow` is plain torch, all pairs of frames at once: Lucas and Kanade's least squares in a small neighbourhood joined
with Horn and Schunck's smoothness (Bruhn, Weickert, Schnoerr 2005, "Lucas/Kanade meets Horn/Schunck"), coarse to fine.
At each level the second picture is drawn back along the flow found so far; what still differs says how to go on.
`opencv_flow` is DIS (Kroeger et al. 2016, arXiv:1603.03590) of OpenCV, for people who have it: faster and finer.

I3D's flow network learnt from TV-L1, clipped at 20 pixels and scaled to -1..1: both functions do the same.
"""

import importlib
import itertools
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from watchword.errors import WatchwordError

LARGEST = 20.0  # pixels: what is faster counts as this fast
SMALLEST_SIDE = 12  # pixels of the coarsest level
SMOOTHNESS = 0.5  # against the data term, which is about 1 where the picture has structure
NOISE = 4.0  # squared grey levels: weaker edges than this are a compressed video's own
WARPS, SWEEPS = 4, 8  # at each level: times to draw back, times to smooth in between
BRIGHTNESS = (0.299, 0.587, 0.114)


def flow(pictures: Tensor, chunk: int = 8) -> Tensor:
    """(F, H, W, 3) uint8 -> (F - 1, 2, H, W): rightwards, downwards; -1..1 stands for -20..20 pixels a frame."""
    num_pairs = max(0, len(pictures) - 1)
    parts = [
        _scaled(pixel_flow(pictures[start : min(start + chunk, num_pairs) + 1])) for start in range(0, num_pairs, chunk)
    ]
    return torch.cat(parts) if parts else torch.zeros(0, 2, *pictures.shape[1:3])


def opencv_flow(pictures: Tensor) -> Tensor:
    """As `flow`, by OpenCV's DIS; on the CPU, pair by pair."""
    try:
        opencv: Any = importlib.import_module("cv2")
    except ImportError as error:
        raise WatchwordError("this flow needs OpenCV: pip install opencv-python-headless, or take `flow`") from error
    search = opencv.DISOpticalFlow_create(opencv.DISOPTICAL_FLOW_PRESET_MEDIUM)
    grey = [opencv.cvtColor(picture, opencv.COLOR_RGB2GRAY) for picture in pictures.cpu().numpy()]
    parts = [torch.from_numpy(search.calc(*pair, None)).permute(2, 0, 1) for pair in itertools.pairwise(grey)]
    return _scaled(torch.stack(parts)) if parts else torch.zeros(0, 2, *pictures.shape[1:3])


def _scaled(motion: Tensor) -> Tensor:
    return motion.clamp(-LARGEST, LARGEST) / LARGEST


@torch.no_grad()
def pixel_flow(pictures: Tensor) -> Tensor:
    """(F, H, W, 3) uint8 -> (F - 1, 2, H, W) pixels."""
    grey = (pictures.float() @ pictures.new_tensor(BRIGHTNESS, dtype=torch.float32)).unsqueeze(1)  # (F, 1, H, W)
    levels = [_blur(grey)]
    while min(levels[-1].shape[2:]) >= 2 * SMALLEST_SIDE:
        height, width = levels[-1].shape[2:]
        levels.append(_resized(_blur(levels[-1]), (height + 1) // 2, (width + 1) // 2))
    motion = torch.zeros(len(grey) - 1, 2, *levels[-1].shape[2:], device=grey.device)
    for level in reversed(levels):
        height, width = level.shape[2:]
        growth = motion.new_tensor([width / motion.shape[3], height / motion.shape[2]]).view(1, 2, 1, 1)
        motion = _resized(motion, height, width) * growth
        for _ in range(WARPS):
            motion = _improved(level[:-1], level[1:], motion)
    return motion


def _improved(before: Tensor, after: Tensor, motion: Tensor) -> Tensor:
    """One drawing back: pictures (P, 1, h, w) twice and motion (P, 2, h, w) -> motion.

    With J the products of gradients around a pixel, least squares give J m = J m0 - t; smoothness makes m
    the mean of its neighbours. Both together are a 2 x 2 system at each pixel, swept SWEEPS times.
    """
    drawn, inside = _drawn_back(after, motion)
    change = drawn - before
    across, down = _gradients((drawn + before) / 2)
    products = [across * across, across * down, down * down, across * change, down * change]
    xx, xy, yy, x, y = _blur(torch.cat(products, 1)).unbind(1)  # (P, h, w)
    weight = inside / (xx + yy + NOISE)  # a faint edge says as much as a strong one; what left the picture, nothing
    xx, xy, yy, x, y = (value * weight for value in (xx, xy, yy, x, y))
    wanted_x = xx * motion[:, 0] + xy * motion[:, 1] - x
    wanted_y = xy * motion[:, 0] + yy * motion[:, 1] - y
    xx, yy = xx + SMOOTHNESS, yy + SMOOTHNESS
    determinant = xx * yy - xy * xy
    xx, xy, yy = xx / determinant, xy / determinant, yy / determinant
    for _ in range(SWEEPS):
        mean_x, mean_y = _blur(motion).unbind(1)
        right_x, right_y = wanted_x + SMOOTHNESS * mean_x, wanted_y + SMOOTHNESS * mean_y
        motion = torch.stack([yy * right_x - xy * right_y, xx * right_y - xy * right_x], 1)
    return motion


def _drawn_back(pictures: Tensor, motion: Tensor) -> tuple[Tensor, Tensor]:
    """Each pixel fetched from where it went, (P, 1, h, w), and whether that is inside, (P, h, w)."""
    height, width = pictures.shape[2:]
    rows, columns = torch.arange(height, device=motion.device), torch.arange(width, device=motion.device)
    x = (columns + motion[:, 0] + 0.5) * (2 / width) - 1
    y = (rows.unsqueeze(1) + motion[:, 1] + 0.5) * (2 / height) - 1
    drawn = functional.grid_sample(pictures, torch.stack([x, y], 3), padding_mode="border", align_corners=False)
    return drawn, (x.abs() <= 1) & (y.abs() <= 1)


def _gradients(pictures: Tensor) -> tuple[Tensor, Tensor]:
    """Central differences, (P, 1, h, w) each; halved at the border."""
    wide = functional.pad(pictures, (1, 1, 1, 1), mode="replicate")
    return (wide[..., 1:-1, 2:] - wide[..., 1:-1, :-2]) / 2, (wide[..., 2:, 1:-1] - wide[..., :-2, 1:-1]) / 2


def _blur(values: Tensor) -> Tensor:
    """The binomial 1 4 6 4 1 along both axes, (P, C, h, w): a Gaussian of one pixel, in plain sums."""
    wide = functional.pad(values, (2, 2, 2, 2), mode="replicate")
    for axis in (2, 3):
        for _ in range(4):
            size = wide.shape[axis] - 1
            wide = wide.narrow(axis, 0, size) + wide.narrow(axis, 1, size)
    return wide / 256


def _resized(values: Tensor, height: int, width: int) -> Tensor:
    return functional.interpolate(values, (height, width), mode="bilinear")
