"""`watchword research refocus`: the key frames of a model with two passes, and the figures of Watch It Twice."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json, Videos
from watchword.errors import WatchwordError
from watchword.research.charts import save_picture

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.research.papers.refocus_figure import Passes
    from watchword.types import Clip

# Words that name nothing visible: Fig. 4 shows the others.
FUNCTION_WORDS = frozenset("a an the is are was be and or of in on to at with by for from his her its".split())


def refocus(
    run: Annotated[Path, typer.Argument(help="A run of model refocus, variant vre.")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "val",
    truth: Annotated[Path | None, typer.Option(help="truth.jsonl of drawn or spliced videos: the true events.")] = None,
    figures: Annotated[
        int, typer.Option(min=0, help="Number of videos to draw: key_frames.png and locations.png.")
    ] = 0,
    ids: Annotated[str, typer.Option(help="Draw these, a,b,c, instead of those whose key frame moved most.")] = "",
    videos: Videos = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the results; default: the run.")
    ] = None,
    beam: Beam = 5,
    as_json: Json = False,
) -> None:
    """Show the key frame that the second pass selected, and the captions of both passes.

    watchword research refocus runs/msrvtt_refocus --figures 5

    watchword research refocus runs/shapes_refocus --truth data/search/truth.jsonl --split test
    """
    from watchword.atomic_io import write_whole
    from watchword.captioning.captioner import Captioner
    from watchword.cli._progress import bar, console
    from watchword.data.benchmarks import read_clips
    from watchword.research.papers.refocus_figure import caption_twice
    from watchword.research.shapes import read_events
    from watchword.training.evaluation import Search

    captioner = Captioner.load(run)
    settings = captioner.bundle.recipe.data
    clips = {clip.video: clip for clip in read_clips(settings).split(split)}
    captioner.features.check(list(clips))
    with bar(transient=True) as progress:
        task = progress.add_task(f"captioning {split} twice", total=len(clips))
        search = Search(beam, max_words=settings.max_words)
        passes = caption_twice(captioner, list(clips), search, lambda done: progress.update(task, completed=done))
    summary = shares(passes, read_events(truth) if truth else None)
    folder = output or run
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"key_frames-{split}.json"
    write_whole(path, json.dumps({"summary": summary, "videos": [row(one) for one in passes]}, indent=1) + "\n")
    if as_json:
        print(json.dumps(summary))
    else:
        for name, value in summary.items():
            typer.echo(f"{name.replace('_', ' '):>24}  {value:.3f}")
        console.print(f"key frames and both captions of {len(passes):,} videos in {path}")
    if figures or ids:
        chosen = choose(passes, ids, figures)
        draw(chosen, clips, videos, captioner, folder)
        console.print(f"pictures of {len(chosen)} videos in {folder}")


def row(passes: "Passes") -> dict[str, object]:
    return {
        "video": passes.video,
        "frames": len(passes.times),
        "middle": passes.middle,
        "key": passes.key,
        "seconds": round(float(passes.times[passes.key]), 3),
        "relevance": [round(float(share), 4) for share in passes.relevance],
        "first": passes.first.text,
        "second": passes.second.text,
    }


def shares(passes: "Sequence[Passes]", events: "Mapping[str, tuple[int, int]] | None") -> dict[str, float]:
    """How often the key frame moved, and where it is: at an end of the video; with the truth, in the event or next to
    it, at the first or the last frame of the event, before it, after it; the same of the middle.

    `chance` is that of a random frame: the mean share of frames that count.
    """
    import numpy as np

    found = {
        "videos": float(len(passes)),
        "moved": float(np.mean([one.key != one.middle for one in passes])),
        "caption_changed": float(np.mean([one.first.words != one.second.words for one in passes])),
        "different_key_frames": float(len({one.key for one in passes})),
    }
    counted: dict[str, list[float]] = {}
    for one in passes:
        frames = np.arange(len(one.times))
        places = {"video_ends": (frames == 0) | (frames == frames[-1])}
        if events is not None:
            start, end = event_of(events, one.video, len(frames))
            places |= {
                "event": (frames >= start) & (frames < end),
                "event_or_border": (frames >= start - 1) & (frames <= end),
                "event_ends": (frames == start) | (frames == end - 1),
                "before_event": frames < start,
                "after_event": frames >= end,
            }
        for name, there in places.items():
            for what, value in (("key", there[one.key]), ("middle", there[one.middle]), ("chance", there.mean())):
                counted.setdefault(f"{name}_{what}", []).append(float(value))
    return found | {name: float(np.mean(values)) for name, values in counted.items()}


def event_of(events: "Mapping[str, tuple[int, int]]", video: str, frames: int) -> tuple[int, int]:
    """The event among the frames that the run reads of a video: its first frame, and the one after it."""
    if video not in events:
        raise WatchwordError(f"the truth has no {video}: is it of the run's own data set?")
    start, end = events[video]
    if end > frames:
        raise WatchwordError(
            f"the event of {video} ends at frame {end}, the run reads {frames} frames: train it without "
            "data.max_time_steps"
        )
    return start, end


def choose(passes: "Sequence[Passes]", ids: str, figures: int) -> "list[Passes]":
    """The named videos, else those whose key frame moved furthest."""
    by_name = {one.video: one for one in passes}
    names = [name.strip() for name in ids.split(",") if name.strip()]
    for name in names:
        if name not in by_name:
            raise WatchwordError(f"{name} is not among the {len(passes):,} videos of the split")
    if names:
        return [by_name[name] for name in names]
    return sorted(passes, key=lambda one: -abs(one.key - one.middle) / len(one.times))[:figures]


def draw(
    passes: "Sequence[Passes]",
    clips: "Mapping[str, Clip]",
    videos: Path | None,
    captioner: "Captioner",
    folder: Path,
) -> None:
    from watchword.models.refocus import Refocus
    from watchword.research.papers.refocus_figure import Strip, WordMasks, draw_masks, draw_strips
    from watchword.video import At, ShortSide, read_frames

    assert isinstance(captioner.model, Refocus)  # checked by `caption_twice`
    spatial = captioner.model.spatial
    strips, masks = [], []
    for one in passes:
        times = tuple((one.times + 1e-3).tolist())  # a time that was rounded down would show the frame before
        frames = read_frames(captioner.video_file(one.video, videos), At(times), ShortSide(168))
        lines = [("GT", clips[one.video].captions[0]), ("STEP1", one.first.text), ("STEP2", one.second.text)]
        strips.append(Strip(frames.pictures, one.middle, one.key, lines))
        attention = one.second.attention.get(f"spatial:{spatial}")
        if attention is not None and attention.shape[2] > 1:
            shown = [row for row, word in enumerate(one.second.words) if word not in FUNCTION_WORDS]
            boxes = captioner.features.read([one.video])[spatial].boxes[0, 0].numpy()
            words = [one.second.words[row] for row in shown]
            weights = attention.sum(1)[shown]  # (T, N): v^s is a mean over frames, and so is its attention
            masks.append(WordMasks(frames.pictures[one.key], words, weights, boxes, [("Ours", one.second.text)]))
    save_picture(draw_strips(strips), folder / "key_frames.png")
    if masks:
        save_picture(draw_masks(masks), folder / "locations.png")
