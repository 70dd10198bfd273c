"""`watchword research layers`: the weights of layers for each part of speech, and Fig. 3 of Pu et al. 2018."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._shared import Beam, Json, Videos
from watchword.errors import WatchwordError, unknown
from watchword.research.charts import save_picture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from watchword.captioning.captioner import Captioner
    from watchword.research.shapes import Truth
    from watchword.types import FloatArray, Hypothesis

ARTICLES = ("a", "an", "the")
OF_THE_SUBJECT = ("object", "colour", "texture", "size")  # kinds of words that describe the subject
PIXELS = 150


def layers(
    run: Annotated[Path, typer.Argument(help="A run of model dual_afr with several layers.")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "val",
    truth: Annotated[
        Path | None, typer.Option(help="truth.jsonl of drawn videos: kinds of words, true locations.")
    ] = None,
    video: Annotated[str, typer.Option(help="Draw this video instead of the table.")] = "",
    videos: Videos = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure of --video, .png or .jpg.")] = Path(
        "layers.png"
    ),
    people: Annotated[
        bool, typer.Option("--people", help="For the words of references, not of generated captions.")
    ] = False,
    beam: Beam = 5,
    as_json: Json = False,
) -> None:
    """Show the mean weight of each layer for each kind of word: parts of speech, or the kinds of drawn videos.

    Generated captions have few words of some kinds; --people reads the references instead, as in training.

    With the truth of drawn videos also the share of attention on cells that overlap the subject, for words that
    describe it; chance is uniform attention.

    watchword research layers runs/msrvtt_dual_afr --split test

    watchword research layers runs/msrvtt_dual_afr --video video7020 --output layers.png
    """
    from watchword.atomic_io import check_outputs
    from watchword.captioning.captioner import Captioner
    from watchword.data.benchmarks import read_clips
    from watchword.research.papers.dual_afr_figure import layer_weights
    from watchword.research.shapes import read_truth

    captioner = Captioner.load(run)
    read = read_clips(captioner.bundle.recipe.data)
    clips = {clip.video: clip for clip in read.clips}
    if video and video not in clips:
        raise unknown("video of the run's data", video, clips)
    ids = [video] if video else [clip.video for clip in read.split(split)]
    captions = captioner.teacher_force([clips[name] for name in ids]) if people else captioner.caption_stored(ids, beam)
    weights = layer_weights(captioner, captions)
    if video:
        path = captioner.video_file(video, videos)
        check_outputs([output], [path])
        picture = draw(captioner, captions[0], weights[0], path)
        save_picture(picture, output)
        typer.echo(f"{captions[0].text}\n{output}")
        return
    known = read_truth(truth) if truth else None
    kinds = by_kind(captions, weights, drawn=known is not None)
    found: dict[str, Any] = {"layers": names_of(captioner), "kinds": kinds}
    if known is not None:
        found["grounding"] = true_locations(captioner, captions, known)
    if as_json:
        print(json.dumps(found))
    else:
        print_table(found, split)


def names_of(captioner: "Captioner") -> list[str]:
    """The streams of the layers, the lowest first."""
    from watchword.models.dual_afr import DualAFR

    assert isinstance(captioner.model, DualAFR)  # checked by `layer_weights`
    return list(captioner.model.layers)


def by_kind(
    captions: "Sequence[Hypothesis]", weights: "Sequence[FloatArray]", drawn: bool
) -> dict[str, dict[str, Any]]:
    """Kind of word -> its count, its mean weights (L,), and its depth; first words, which read no layer, are left out.

    The depth is the mean of the layers' numbers, from 1, by their weights; its standard error is over videos.
    `drawn`: kinds of the drawn videos' lexicon (texture is fine detail, scene the whole picture), else parts of speech.
    """
    import numpy as np

    from watchword.metrics.statistics import mean_of_ratio
    from watchword.research.shapes.grammar import kind_of

    rows: dict[str, dict[str, list[FloatArray]]] = {}  # kind -> video -> weights of its words
    for caption, own in zip(captions, weights, strict=True):
        kinds = [kind_of(word) for word in caption.words] if drawn else parts_of(caption.words)
        for kind, row in list(zip(kinds, own, strict=True))[1:]:
            rows.setdefault(kind, {}).setdefault(caption.video, []).append(row)
    found = {}
    for kind, videos in rows.items():
        every = np.array([row for own in videos.values() for row in own])  # (words, L)
        numbers = np.arange(1, every.shape[1] + 1)
        depths = np.array([(np.array(own) @ numbers).sum() for own in videos.values()])  # sums over a video's words
        depth, error = mean_of_ratio(depths, np.array([len(own) for own in videos.values()], float))
        found[kind] = {"words": len(every), "weights": every.mean(0).tolist(), "depth": depth, "error": error}
    return dict(sorted(found.items(), key=lambda item: -item[1]["words"]))


def parts_of(words: Sequence[str]) -> list[str]:
    """Parts of speech; articles and prepositions, which Pu et al. set against nouns, stand apart from other words."""
    from watchword.text.parts_of_speech import PREPOSITIONS, parts_of_speech

    def kind_of(word: str, part: str) -> str:
        if part != "other":
            return part
        return "article" if word in ARTICLES else "preposition" if word in PREPOSITIONS else part

    return [kind_of(word, part) for word, part in zip(words, parts_of_speech(words), strict=True)]


def true_locations(
    captioner: "Captioner", captions: "Sequence[Hypothesis]", truth: "Mapping[str, Truth]"
) -> dict[str, float | None]:
    """The mean share of attention on cells that overlap the subject in frames that show it, and that of chance.

    None without a word that describes it.
    """
    import numpy as np

    from watchword.research.shapes.grammar import kind_of

    stream = names_of(captioner)[-1]
    shares: dict[str, list[float]] = {"attention": [], "chance": []}
    for caption in captions:
        if caption.video not in truth:
            raise WatchwordError(f"the truth has no {caption.video}: is it of the run's own data set?")
        weights = caption.attention[stream]  # (T, F, N)
        cells = (
            captioner.features.read([caption.video])[stream].boxes[0].numpy()[: weights.shape[1], : weights.shape[2]]
        )
        own = truth[caption.video]
        meets = on_subject(cells, own.boxes[: len(cells), own.subject], own.visible[: len(cells), own.subject])
        for place, word in enumerate(caption.words):
            if place and kind_of(word) in OF_THE_SUBJECT:
                shares["attention"].append(float(weights[place][meets].sum()))
                shares["chance"].append(float(meets.mean()))
    return {name: float(np.mean(values)) if values else None for name, values in shares.items()}


def on_subject(cells: "FloatArray", boxes: "FloatArray", visible: "NDArray[np.bool_]") -> "NDArray[np.bool_]":
    """cells (F, N, 4), the subject's box (F, 4), whether it is visible (F,) -> cells that overlap it, (F, N) bool."""
    import numpy as np

    low = np.maximum(cells[..., :2], boxes[:, None, :2])
    high = np.minimum(cells[..., 2:], boxes[:, None, 2:])
    meets: NDArray[np.bool_] = (high > low).all(-1) & visible[:, None]
    return meets


def draw(captioner: "Captioner", caption: "Hypothesis", weights: "FloatArray", video: Path) -> Any:
    from watchword.research.papers.dual_afr_figure import WordAttention, draw_words, strongest_locations
    from watchword.video import At, ShortSide, read_frames

    stream = names_of(captioner)[-1]
    arrays = captioner.features.read([caption.video])[stream]
    best = strongest_locations(caption.attention[stream])
    steps = sorted({step for step, _ in best})
    times = arrays.times[0].numpy()
    pictures = read_frames(video, At(tuple(float(times[step]) for step in steps)), ShortSide(PIXELS)).pictures
    words = []
    for word, (step, location), own in zip(caption.words, best, weights, strict=True):
        box = arrays.boxes[0, step, location].numpy()
        words.append(WordAttention(word, float(times[step]), pictures[steps.index(step)], box, own))
    return draw_words(words, names_of(captioner))


def print_table(found: dict[str, Any], split: str) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{split}: mean weight of each layer"
    table = Table("words", "count", *found["layers"], "depth", title=title, title_justify="left")
    for kind, row in found["kinds"].items():
        depth = f"{row['depth']:.3f} +- {row['error']:.3f}"
        table.add_row(kind, f"{row['words']:,}", *(f"{weight:.3f}" for weight in row["weights"]), depth)
    Console().print(table)
    share, chance = (found.get("grounding", {}).get(name) for name in ("attention", "chance"))
    if share is not None:
        typer.echo(f"attention on cells that overlap the subject: {share:.1%}, by chance {chance:.1%}")
