"""How streams are extracted: which frames or windows of a video, and by which network. All of it is in a store's key.

Streams with equal specs share their passes: `appearance` and `appearance_grid` cost one pass of the network.

The key of a store is a hash of a spec's dump by alias, so an alias never changes, whatever the field is called.
"""

from typing import Any, Literal, Self

import numpy as np
from pydantic import AliasChoices, Field, field_validator, model_validator

from watchword.config import Settings
from watchword.types import FloatArray
from watchword.video import Plan, Rate, Spaced, Timeline, Uniform


def renamed(default: Any, new: str, old: str, **limits: Any) -> Any:
    """A field that has its old name in stores and in settings written before 0.2."""
    return Field(default, validation_alias=AliasChoices(new, old), serialization_alias=old, **limits)


class StreamSpec(Settings):
    """Time steps evenly spaced over the video, or so many a second."""

    backbone: str
    weights: str = ""  # a user's checkpoint file; in a store's key its sha256
    time_steps: int | None = renamed(28, "time_steps", "moments", ge=1)  # of the whole video, or ...
    per_second: float | None = Field(None, gt=0)  # ... of each second
    stride: int | None = Field(None, ge=1)  # every so many frames, `time_steps` at most: wider in long videos
    every: int = Field(1, ge=1)  # only the middle one of each so many (G2L's regions: 3)
    pixels: int | None = Field(None, ge=32)  # a side; None: what the network was trained with
    aspect: Literal["squash", "crop"] = "squash"  # the whole frame, distorted, or its middle square

    @model_validator(mode="before")
    @classmethod
    def one_way_to_sample(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("per_second") is not None:
            if values.get("time_steps", values.get("moments")) is not None:
                raise ValueError("time_steps and per_second exclude each other: give one")
            return {**{key: value for key, value in values.items() if key != "moments"}, "time_steps": None}
        return values

    @property
    def reads_all(self) -> bool:
        """Whether the network reads the whole video at once, so that there is nothing to sample."""
        return False

    @model_validator(mode="after")
    def some_way_to_sample(self) -> Self:
        if self.time_steps is None and self.per_second is None and not self.reads_all:
            raise ValueError("give time_steps or per_second")
        if self.stride is not None and self.time_steps is None:
            raise ValueError("stride and per_second exclude each other: give stride and time_steps, or per_second")
        return self

    def instants(self, timeline: Timeline) -> FloatArray:
        """The times of the steps, (F,) ascending seconds. A frame is taken once: five frames give at most five."""
        plan: Plan = Uniform(self.time_steps) if self.time_steps is not None else Rate(self.per_second or 1.0)
        if self.stride is not None and self.time_steps is not None:
            plan = Spaced(self.time_steps, self.stride)
        times = plan.times(timeline)
        _, first = np.unique(np.searchsorted(timeline.times, times + 1e-6, side="right"), return_index=True)
        times = times[first]
        return times[min(self.every // 2, len(times) - 1) :: self.every]


class ImageSpec(StreamSpec):
    """Single frames."""

    backbone: str = "efficientnet_lite0"
    cells: int | None = Field(None, ge=1)  # a side of a stored grid, at most; None: as fine as the network's


class RegionSpec(StreamSpec):
    """Single frames: a detector finds regions, and `region_backbone` gives the features of each."""

    backbone: str = "yolov4_tiny"
    region_backbone: str = renamed("efficientnet_lite0", "region_backbone", "eye")
    region_weights: str = renamed("", "region_weights", "eye_weights")
    every: int = Field(3, ge=1)  # G2L: one of three frames
    regions: int = Field(16, ge=1)  # k, G2L's N_o


class WindowSpec(StreamSpec):
    """Short windows of frames around the time steps.

    Sixteen frames at eight a second cover two seconds: five windows tile a clip of ten. With `clip = "video"` the whole
    video is one clip of `frame_rate` frames a second, as dualAFR reads it with C3D.

    What is None is as it was before there was the setting, and in no key.
    """

    backbone: str = "i3d"
    time_steps: int | None = renamed(5, "time_steps", "moments", ge=1)
    frames: int = Field(16, ge=2)
    frame_rate: float = Field(8.0, gt=0)
    clip: Literal["video"] | None = None  # the whole video; None: windows
    maps: Literal["own"] | None = None  # of several depths: each as large as the network has it; None: averaged
    vector: Literal["fc6"] | None = None  # c3d: what stands for a window; None: fc7
    mean: tuple[float, float, float] | None = None  # c3d: a colour that is taken off, red, green, blue
    precision: Literal["bfloat16"] | None = None  # i3d: half the time on a CPU with bfloat16; None: float32

    @property
    def reads_all(self) -> bool:
        return self.clip == "video"

    @field_validator("mean", mode="before")
    @classmethod
    def numbers_of_a_word(cls, value: Any) -> Any:
        """`102,98,90` on the command line."""
        return value.strip("[] ").split(",") if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def a_whole_video_is_not_sampled(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.get("clip") != "video":
            return values
        given = [name for name in ("time_steps", "moments", "per_second", "stride") if values.get(name) is not None]
        if given:
            raise ValueError(f"clip=video reads the whole video: leave {given[0]} out, or clip")
        return {**values, "time_steps": None}

    @model_validator(mode="after")
    def settings_of_one_backbone(self) -> Self:
        for name in ("clip", "vector", "mean"):
            if getattr(self, name) is not None and self.backbone != "c3d":
                raise ValueError(f"{name} is a setting of the backbone c3d, not of {self.backbone}")
        if self.precision is not None and self.backbone not in ("i3d", "i3d_flow"):
            raise ValueError(f"precision is a setting of the backbone i3d, not of {self.backbone}")
        if self.clip and (self.frames != 16 or self.every != 1):
            raise ValueError("clip=video has windows of 16 frames: leave frames and every out")
        return self


class FlowSpec(WindowSpec):
    """Windows of optical flow: histograms, or I3D with a user's flow weights."""

    backbone: Literal["histogram", "i3d_flow"] = "histogram"
    frames: int = Field(17, ge=2)  # 16 steps from frame to frame


class AudioSpec(Settings):
    """The whole sound track; the network has windows of its own (0.975 s, every 0.48 s)."""

    backbone: str = "yamnet"
    weights: str = ""
