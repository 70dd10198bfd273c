"""`watchword refocus`: the key frames of a run that looks twice, and the paper's two figures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._options import Films
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.research.papers.refocus_passes import Looks
    from watchword.research.shapes import Truth
    from watchword.training.captioner import LoadedCaptioner
    from watchword.types import Clip

# Words that name nothing one could look at: Fig. 4 shows the others.
FUNCTION_WORDS = frozenset("a an the is are was be and or of in on to at with by for from his her its".split())


def refocus(
    run: Annotated[Path, typer.Argument(help="A run of model refocus, variant vre.")],
    split: Annotated[str, typer.Option(help="The split that is watched.")] = "val",
    truth: Annotated[Path | None, typer.Option(help="truth.jsonl of drawn films: where the events really are.")] = None,
    figures: Annotated[int, typer.Option(min=0, help="Draw so many films: key_frames.png and places.png.")] = 0,
    videos: Annotated[str, typer.Option(help="Draw these, a,b,c, instead of those whose key frame moved most.")] = "",
    films: Films = None,
    output: Annotated[Path | None, typer.Option(help="Where results go; the run folder if not given.")] = None,
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary for a program.")] = False,
) -> None:
    """Show which frame a captioner turned to, and what it said before and after.

    watchword refocus runs/msrvtt_refocus --figures 5

    watchword refocus runs/shapes_refocus --truth data/search/truth.jsonl --split test
    """
    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar, console
    from watchword.data.benchmarks import read_clips
    from watchword.research.papers.refocus_passes import look_twice
    from watchword.research.shapes import read_truth
    from watchword.training.captioner import LoadedCaptioner
    from watchword.training.evaluation import Search

    captioner = LoadedCaptioner.load(run)
    settings = captioner.run.recipe.data
    clips = {clip.video: clip for clip in read_clips(settings).split(split)}
    captioner.features.check(list(clips))
    with bar(transient=True) as progress:
        task = progress.add_task(f"watching {split} twice", total=len(clips))
        looks = look_twice(
            captioner.model, captioner.features, list(clips), captioner.vocabulary,
            Search(beam, max_words=settings.max_words), lambda done: progress.update(task, completed=done),
        )  # fmt: skip
    summary = shares(looks, read_truth(truth) if truth else None)
    folder = output or run
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"key_frames-{split}.json"
    write_whole(path, json.dumps({"summary": summary, "videos": [row(one) for one in looks]}, indent=1) + "\n")
    if as_json:
        print(json.dumps(summary))
    else:
        for name, value in summary.items():
            console.print(f"{name.replace('_', ' '):>24}  {value:.3f}")
        console.print(f"key frames and both sentences of {len(looks):,} videos in {path}")
    if figures or videos:
        chosen = choose(looks, videos, figures)
        draw(chosen, clips, films, captioner, folder)
        console.print(f"pictures of {len(chosen)} films in {folder}")


def row(looks: "Looks") -> dict[str, object]:
    return {
        "video": looks.video, "frames": len(looks.times), "middle": looks.middle, "key": looks.key,
        "seconds": round(float(looks.times[looks.key]), 3),
        "relevance": [round(float(share), 4) for share in looks.relevance],
        "first": looks.first.text, "second": looks.second.text,
    }  # fmt: skip


def shares(looks: "Sequence[Looks]", truth: "Mapping[str, Truth] | None") -> dict[str, float]:
    """How often the key frame moved; with the truth, how often it lies in the event or next to it, and the middle does.

    `chance` is what a frame drawn at random would get: the mean share of frames that count.
    """
    import numpy as np

    found = {
        "videos": float(len(looks)),
        "moved": float(np.mean([one.key != one.middle for one in looks])),
        "sentence_changed": float(np.mean([one.first.words != one.second.words for one in looks])),
        "different_key_frames": float(len({one.key for one in looks})),
    }
    if truth is None:
        return found
    for name, border in (("event", 0), ("event_or_border", 1)):
        of: dict[str, list[float]] = {"key": [], "middle": [], "chance": []}
        for one in looks:
            if one.video not in truth:
                raise WatchwordError(f"the truth says nothing of {one.video}: is it of the run's own data set?")
            start, end = truth[one.video].event
            inside = [start - border <= frame < end + border for frame in range(len(one.times))]
            of["key"].append(inside[one.key])
            of["middle"].append(inside[one.middle])
            of["chance"].append(sum(inside) / len(inside))
        found |= {f"{name}_{what}": float(np.mean(values)) for what, values in of.items()}
    return found


def choose(looks: "Sequence[Looks]", videos: str, figures: int) -> "list[Looks]":
    """Those that were asked for by name, else those whose key frame moved furthest."""
    by_name = {one.video: one for one in looks}
    names = [name.strip() for name in videos.split(",") if name.strip()]
    for name in names:
        if name not in by_name:
            raise WatchwordError(f"{name} is not among the {len(looks):,} videos of the split")
    if names:
        return [by_name[name] for name in names]
    return sorted(looks, key=lambda one: -abs(one.key - one.middle) / len(one.times))[:figures]


def draw(
    looks: "Sequence[Looks]", clips: "Mapping[str, Clip]", films: Path | None, captioner: "LoadedCaptioner",
    folder: Path,
) -> None:  # fmt: skip
    from watchword.models.refocus import Refocus
    from watchword.research.papers.refocus_figure import Glances, Strip, film_strips, masks
    from watchword.video import At, ShortSide, read_frames

    assert isinstance(captioner.model, Refocus)  # `look_twice` has refused all others
    spatial = captioner.model.spatial
    strips, glances = [], []
    for one in looks:
        times = tuple((one.times + 1e-3).tolist())  # a time that was rounded down is still the frame before
        frames = read_frames(captioner.video_path(one.video, films), At(times), ShortSide(168))
        said = [("GT", clips[one.video].captions[0]), ("STEP1", one.first.text), ("STEP2", one.second.text)]
        strips.append(Strip(frames.pictures, one.middle, one.key, said))
        looked = one.second.attention.get(f"spatial:{spatial}")
        if looked is not None and looked.shape[2] > 1:
            shown = [place for place, word in enumerate(one.second.words) if word not in FUNCTION_WORDS]
            boxes = captioner.features.read([one.video])[spatial].boxes[0, 0].numpy()
            words = [one.second.words[place] for place in shown]
            weights = looked.sum(1)[shown]  # (T, N): v^s is a mean over frames, so is what is looked at
            glances.append(Glances(frames.pictures[one.key], words, weights, boxes, [("Ours", one.second.text)]))
    film_strips(strips).save(folder / "key_frames.png")
    if glances:
        masks(glances).save(folder / "places.png")
