"""Which moments of a film a network sees or hears, and how: settings, all of them part of a store's key.

Streams with equal looks are seen once: `appearance` and `appearance_grid` cost one pass of the network.
"""

from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from watchword.config import Settings
from watchword.types import FloatArray
from watchword.video import Plan, Rate, Spaced, Timeline, Uniform


class Look(Settings):
    """Moments spread evenly over the film, or so many a second."""

    backbone: str
    weights: str = ""                                # a user's checkpoint file; in a store's key its sha256
    moments: int | None = Field(28, ge=1)            # of the whole film, or ...
    per_second: float | None = Field(None, gt=0)     # ... of each second
    stride: int | None = Field(None, ge=1)           # every so many frames, `moments` at most: wider in long films
    every: int = Field(1, ge=1)                      # only the middle one of each so many (G2L's regions: 3)
    pixels: int | None = Field(None, ge=32)          # a side; None: what the network was trained with
    aspect: Literal["squash", "crop"] = "squash"     # the whole picture out of shape, or its middle square in shape

    @model_validator(mode="before")
    @classmethod
    def one_way_to_sample(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("per_second") is not None:
            if values.get("moments") is not None:
                raise ValueError("moments and per_second both say when to look: give one")
            return {**values, "moments": None}
        return values

    @model_validator(mode="after")
    def some_way_to_sample(self) -> Self:
        if self.moments is None and self.per_second is None:
            raise ValueError("say when to look: moments or per_second")
        if self.stride is not None and self.moments is None:
            raise ValueError("stride and per_second both say when to look: give stride and moments, or per_second")
        return self

    def instants(self, timeline: Timeline) -> FloatArray:
        """The moments, (F,) ascending seconds. A frame is taken once: a video of five frames has at most five."""
        plan: Plan = Uniform(self.moments) if self.moments is not None else Rate(self.per_second or 1.0)
        if self.stride is not None and self.moments is not None:
            plan = Spaced(self.moments, self.stride)
        times = plan.times(timeline)
        _, first = np.unique(np.searchsorted(timeline.times, times + 1e-6, side="right"), return_index=True)
        times = times[first]
        return times[min(self.every // 2, len(times) - 1) :: self.every]


class PictureLook(Look):
    """Single frames."""

    backbone: str = "efficientnet_lite0"
    cells: int | None = Field(None, ge=1)            # a side of a stored grid, at most; None: as fine as the network's


class RegionLook(Look):
    """Single frames, in which a detector looks for things; `eye` says what each of them looks like."""

    backbone: str = "yolov4_tiny"
    eye: str = "efficientnet_lite0"
    eye_weights: str = ""
    every: int = Field(3, ge=1)                      # G2L: one of three frames
    regions: int = Field(16, ge=1)                   # k, G2L's N_o


class WindowLook(Look):
    """Short windows of frames around the moments.

    Sixteen frames at eight a second cover two seconds: five windows tile a clip of ten.
    """

    backbone: str = "i3d"
    moments: int | None = Field(5, ge=1)
    frames: int = Field(16, ge=2)
    frame_rate: float = Field(8.0, gt=0)


class FlowLook(WindowLook):
    """Windows of motion between frames: described by hand, or by I3D when a person has its flow weights."""

    backbone: Literal["histogram", "i3d_flow"] = "histogram"
    frames: int = Field(17, ge=2)                    # 16 steps from frame to frame


class SoundLook(Settings):
    """The whole sound; the network has windows of its own (0.975 s, every 0.48 s)."""

    backbone: str = "yamnet"
    weights: str = ""
