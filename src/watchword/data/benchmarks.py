"""The benchmarks, one definition each, and the clips that a recipe's `[data]` table stands for.

All files are below one data folder: `WATCHWORD_DATA`, else the key `data` of the user's config file. Features can lie
elsewhere: `WATCHWORD_FEATURES`, or the key `features`. A benchmark is rarely at hand whole. Videos without features are
left out, and `ClipSet` counts of how many.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from watchword.config import Data
from watchword.data.annotations import EXPECTED, read_annotations, split_checksum
from watchword.data.reading import videos_in
from watchword.errors import WatchwordError, unknown
from watchword.features.store import Store
from watchword.preferences import config_file, preference
from watchword.types import Clip, StreamName

NOT_IN_STILLS = ("motion", "flow", "audio")  # streams whose names begin so need real frames in a row, or sound


@dataclass(frozen=True)
class Benchmark:
    """Where a data set is, below the data folder, and its official split."""

    title: str
    captions: tuple[str, ...]  # a file or a folder that `read_annotations` reads; the first that is there
    store: str  # name of its feature store
    sizes: Mapping[str, int]  # videos of each split, as published
    streams: tuple[str, ...]  # that its features have
    settings: tuple[str, ...]  # of these streams, as --settings has them
    source: str = ""  # where its captions and videos are to be had
    stills: str = ""  # videos in a folder of this name are still pictures: no motion, no sound

    def is_still(self, clip: Clip) -> bool:
        return bool(self.stills) and clip.path is not None and clip.path.parent.name == self.stills


FRAMES = 8  # of a video, and windows of motion at the same instants
IMAGE_STREAMS = ("appearance", "appearance_token", "appearance_grid", "appearance_layers", "regions")
MOTION_STREAMS = ("motion", "motion_grid")
SETTINGS = (
    *(f"{stream}.time_steps={FRAMES}" for stream in (*IMAGE_STREAMS, *MOTION_STREAMS)),
    *(f"{stream}.backbone=clip_vit_b16" for stream in IMAGE_STREAMS if stream != "regions"),
    "appearance_grid.cells=7",  # 14 x 14 patches averaged: 0.6 MB a video
    "appearance_layers.every=3",  # 14 x 14 patches of four blocks at three frames: 3.6 MB a video
    "regions.region_backbone=clip_vit_b16",
    "regions.every=1",
)
SMALL_FRAMES = 4
SMALL_STREAMS = ("appearance", "appearance_grid", "appearance_layers")
SMALL_SETTINGS = (
    *(f"{stream}.time_steps={SMALL_FRAMES}" for stream in (*SMALL_STREAMS, "regions", *MOTION_STREAMS)),
    *(f"{stream}.backbone=clip_vit_b16" for stream in SMALL_STREAMS),
    *(f"{stream}.cells=7" for stream in SMALL_STREAMS[1:]),
    "appearance_layers.every=1",
    "regions.region_backbone=clip_vit_b16",
    "regions.every=1",
)
MSVD_SOURCE = "https://www.cs.utexas.edu/users/ml/clamp/videoDescription/"
MSRVTT_SOURCE = "https://github.com/ArrowLuo/CLIP4Clip#data-preparing"
WHOLE = {
    "msvd": Benchmark(
        "MSVD",
        ("msvd",),
        "msvd",
        {"train": 1200, "val": 100, "test": 670},
        (*IMAGE_STREAMS, *MOTION_STREAMS),
        SETTINGS,
        source=MSVD_SOURCE,
    ),
    "msrvtt": Benchmark(
        "MSR-VTT",
        ("msrvtt/pictures.jsonl.gz", "msrvtt"),
        "msrvtt",
        {"train": 6513, "val": 497, "test": 2990},
        (*IMAGE_STREAMS, *MOTION_STREAMS, "audio"),
        SETTINGS,
        source=MSRVTT_SOURCE,
        stills="frames",
    ),
}
SMALL = {  # the same videos, with a third of the features' cost
    f"{name}_small": replace(whole, store=f"{name}_small", streams=SMALL_STREAMS, settings=SMALL_SETTINGS)
    for name, whole in WHOLE.items()
}
BENCHMARKS: dict[str, Benchmark] = WHOLE | SMALL


def find_benchmark(name: str) -> Benchmark:
    if name not in BENCHMARKS:
        raise unknown("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]


def settings_of(name: str, streams: Sequence[str]) -> list[str]:
    """How a benchmark's features of these streams are made, as `prepare` reads it."""
    return [word for word in find_benchmark(name).settings if word.partition(".")[0] in streams]


# --- paths ---------------------------------------------------------------------------------------------------------


def data_folder() -> Path:
    """The folder with the user's data sets."""
    named, config = preference("data"), config_file()
    if not named:
        raise WatchwordError(
            f"no data folder is set: export WATCHWORD_DATA=FOLDER, or write data = 'FOLDER' into {config}"
        )
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise WatchwordError(f"the data folder {folder} does not exist: change WATCHWORD_DATA or {config}")
    return folder


def features_folder(data: Path | None = None) -> Path:
    """The folder of the benchmarks' feature stores: `features` in the data folder unless another one is set."""
    named = preference("features")
    return Path(named).expanduser() if named else (data or data_folder()) / "features"


def captions_path(data: Data) -> Path:
    """The captions that a recipe names, or its benchmark's."""
    if data.captions is not None:
        return data.captions
    benchmark, root = find_benchmark(data.benchmark or ""), data_folder()
    found = next((root / name for name in benchmark.captions if (root / name).exists()), None)
    if found is None:
        place = root / benchmark.captions[-1]
        raise WatchwordError(f"no captions of {benchmark.title} in {place}: {EXPECTED}; or set data.captions=FILE")
    return found


def store_path(data: Data) -> Path:
    """The feature store that a recipe names, or its benchmark's."""
    return data.store or features_folder() / find_benchmark(data.benchmark or "").store


# --- clips ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClipSet:
    """The clips that a run uses, and how many there are officially."""

    clips: tuple[Clip, ...]
    sizes: Mapping[str, int]  # videos of each split, used or not
    checksums: Mapping[str, str]  # of each split's captions, used or not

    def split(self, name: str) -> list[Clip]:
        """The clips of a split; one that is empty is refused."""
        found = [clip for clip in self.clips if clip.split == name]
        if not found:
            raise WatchwordError(f"there are no {name} videos: {self}")
        return found

    def used(self) -> dict[str, dict[str, Any]]:
        """Of each split: videos, of how many, and a short checksum of their ids and captions."""
        sums = split_checksum(self.clips)
        counts = Counter(clip.split for clip in self.clips)
        return {
            split: {"videos": counts[split], "of": size, "sha256": sums[split][:12] if split in sums else ""}
            for split, size in self.sizes.items()
        }

    def __str__(self) -> str:
        return ", ".join(f"{split} {share_text(row)}" for split, row in self.used().items())


def share_text(row: Mapping[str, Any]) -> str:
    """`622 of 670`, or `670` where all are used."""
    return f"{row['videos']:,}" + (f" of {row['of']:,}" if row["of"] != row["videos"] else "")


def read_clips(data: Data) -> ClipSet:
    """The clips of a recipe. Of a benchmark, those whose required streams are in the store."""
    path = captions_path(data)
    clips = read_annotations(path)
    sums = split_checksum(clips)
    if data.benchmark is None:
        return ClipSet(tuple(clips), Counter(clip.split for clip in clips), sums)
    benchmark = find_benchmark(data.benchmark)
    usable = _with_features(clips, data) if not data.text_only else clips
    return ClipSet(tuple(usable), benchmark.sizes, sums)


def _with_features(clips: Sequence[Clip], data: Data) -> list[Clip]:
    store, there = Store(store_path(data)), {clip.video for clip in clips}
    for stream in data.required_streams:
        there &= set(store.videos(stream)) if store.keys(stream) else set()
    if not there:
        command = f"features extract --benchmark {data.benchmark} --streams {','.join(_extractors(data.streams))}"
        raise WatchwordError(
            f"no video of {data.benchmark} has {', '.join(data.required_streams)} in {store.folder}: run "
            f"{data.made_by or f'watchword {command}'}"
        )
    return [clip for clip in clips if clip.video in there]


def _extractors(streams: Iterable[str]) -> list[str]:
    """`motion_layers.2@938e` is made by the extractor `motion_layers`."""
    return list(dict.fromkeys(StreamName.parse(stream).extractor for stream in streams))


def benchmark_videos(name: str) -> tuple[list[Clip], int]:
    """The clips of a benchmark whose video files are at hand, and how many clips have captions."""
    path = captions_path(Data(benchmark=name))
    clips = read_annotations(path)
    found = [clip for clip in clips if clip.path is not None and clip.path.is_file()]
    if not found:
        folder = path if path.is_dir() else path.parent
        others = videos_in(folder)
        what = f"none of its {len(others):,} videos is named like {clips[0].video}" if others else "it has no videos"
        raise WatchwordError(f"{folder} has captions of {len(clips):,} videos, but {what}: put them into clips/")
    return found, len(clips)


# --- what of a benchmark is there ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inventory:
    """What of a benchmark is in a folder, by split."""

    captions: Path
    num_captions: int
    sizes: Mapping[str, int]  # videos as published
    captioned: Mapping[str, int]
    with_video: Mapping[str, int]
    without_video: tuple[str, ...]  # ids
    store: Path
    with_stream: Mapping[str, Mapping[str, int]]  # stream -> split -> videos


def take_inventory(name: str, folder: Path) -> Inventory:
    """Of the benchmark's own folder, and of its feature store: the named one, or that of the same data folder."""
    benchmark = find_benchmark(name)
    first = folder / Path(benchmark.captions[0]).name
    path = first if len(benchmark.captions) > 1 and first.exists() else folder
    clips = read_annotations(path)
    store = Store(features_folder(folder.absolute().parent) / benchmark.store)
    split_of = {clip.video: clip.split for clip in clips}
    return Inventory(
        path,
        sum(len(clip.captions) for clip in clips),
        benchmark.sizes,
        Counter(split_of.values()),
        Counter(clip.split for clip in clips if clip.path is not None),
        tuple(clip.video for clip in clips if clip.path is None),
        store.folder,
        {
            stream: Counter(split_of[video] for video in store.videos(stream) if video in split_of)
            for stream in store.streams()
        },
    )
