"""From a video's file to frames at presentation times, mono sound, and shots. Numpy and PyAV, no network.

frames = read_frames("clip.mp4", Uniform(28), CentreCrop(224))      # Frames: (28, 224, 224, 3), times (28,)
for frames in iterate_frames("video.mkv", Rate(8), chunk=64): ...     # two hours in the memory of one chunk
for name, frames in iterate_views("video.mkv", {"appearance": View(...), "motion": View(...)}): ...  # one decoding
sound = read_audio("clip.mp4", rate=16_000)                          # (samples,), empty for a silent video
shots = histogram_shots(iterate_frames("video.mkv", Rate(8), Squash(64, 48)))
"""

from watchword.video.audio import iterate_audio, read_audio
from watchword.video.container import DamagedVideo, shown
from watchword.video.formats import browser_type
from watchword.video.reader import VideoInfo, View, iterate_frames, iterate_views, probe, read_frames
from watchword.video.sampling import At, Ends, Plan, Rate, Spaced, Stride, Uniform
from watchword.video.shots import HistogramCuts, Shot, histogram_shots, shots_from_cuts
from watchword.video.timeline import Timeline, read_timeline
from watchword.video.transforms import CentreCrop, ShortSide, Squash

__all__ = [
    "At",
    "CentreCrop",
    "DamagedVideo",
    "Ends",
    "HistogramCuts",
    "Plan",
    "Rate",
    "ShortSide",
    "Shot",
    "Spaced",
    "Squash",
    "Stride",
    "Timeline",
    "Uniform",
    "VideoInfo",
    "View",
    "browser_type",
    "histogram_shots",
    "iterate_audio",
    "iterate_frames",
    "iterate_views",
    "probe",
    "read_audio",
    "read_frames",
    "read_timeline",
    "shots_from_cuts",
    "shown",
]
