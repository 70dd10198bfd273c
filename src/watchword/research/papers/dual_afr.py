"""`watchword layers`: which layers each kind of word looks at, and the paper's Fig. 3 for one film."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._options import Films
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from watchword.research.shapes import Truth
    from watchword.training.captioner import LoadedCaptioner
    from watchword.types import Caption, FloatArray

OF_THE_SUBJECT = ("object", "colour", "texture", "size")  # kinds of words that say how the subject looks
PIXELS = 150


def layers(
    run: Annotated[Path, typer.Argument(help="A run of model dual_afr with several layers.")],
    split: Annotated[str, typer.Option(help="The split that is described.")] = "val",
    truth: Annotated[Path | None, typer.Option(help="truth.jsonl of drawn films: kinds of words, true places.")] = None,
    video: Annotated[str, typer.Option(help="Draw this one instead.")] = "",
    films: Films = None,
    output: Annotated[Path, typer.Option(help="The picture of --video, .png or .jpg.")] = Path("layers.png"),
    people: Annotated[bool, typer.Option("--people", help="For words of people's captions, not its own.")] = False,
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """Show the mean weight of each layer for each kind of word: nouns, verbs, ..., or kinds of words of drawn films.

    A captioner says few words of some kinds: --people follows the captions that people said, as in training.

    With the truth of drawn films also the share of attention on cells that the subject's box meets, for words that say
    how it looks; chance looks at all places alike.

    watchword layers runs/msrvtt_dual_afr --split test

    watchword layers runs/msrvtt_dual_afr --video video7020 --output layers.png
    """
    from watchword.data.benchmarks import read_clips
    from watchword.research.papers.dual_afr_weights import layer_weights
    from watchword.research.shapes import read_truth
    from watchword.training.captioner import LoadedCaptioner

    captioner = LoadedCaptioner.load(run)
    read = read_clips(captioner.run.recipe.data)
    clips = {clip.video: clip for clip in read.clips}
    if video and video not in clips:
        raise unknown("video of the run's data", video, clips)
    videos = [video] if video else [clip.video for clip in read.split(split)]
    captions = captioner.teacher_force([clips[name] for name in videos]) if people else captioner.describe(videos, beam)
    weights = layer_weights(captioner.model, captioner.features, captions, captioner.vocabulary)
    if video:
        picture = draw(captioner, captions[0], weights[0], captioner.video_path(video, films))
        try:
            picture.save(output)
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot write {output}: {error}; name a .png or .jpg") from error
        typer.echo(f"{captions[0].text}\n{output}")
        return
    known = read_truth(truth) if truth else None
    kinds = by_kind(captions, weights, drawn=known is not None)
    found: dict[str, Any] = {"layers": names_of(captioner), "kinds": kinds}
    if known is not None:
        found["places"] = true_places(captioner, captions, known)
    if as_json:
        print(json.dumps(found))
    else:
        print_table(found, split)


def names_of(captioner: "LoadedCaptioner") -> list[str]:
    """The streams of the layers, the lowest first."""
    from watchword.models.dual_afr import DualAFR

    assert isinstance(captioner.model, DualAFR)  # `layer_weights` has refused all others
    return list(captioner.model.layers)


def by_kind(captions: "Sequence[Caption]", weights: "Sequence[FloatArray]", drawn: bool) -> dict[str, dict[str, Any]]:
    """Kind of word -> how many were said, and the mean weights (L,); first words, which look at no layer, are left out.

    `drawn`: kinds of the drawn films' lexicon (texture is fine detail, scene the whole picture), else parts of speech.
    """
    import numpy as np

    from watchword.research.shapes.grammar import kind_of
    from watchword.text.parts_of_speech import parts_of_speech

    rows: dict[str, list[FloatArray]] = {}
    for caption, own in zip(captions, weights, strict=True):
        kinds = [kind_of(word) for word in caption.words] if drawn else parts_of_speech(caption.words)
        for kind, row in list(zip(kinds, own, strict=True))[1:]:
            rows.setdefault(kind, []).append(row)
    ordered = sorted(rows, key=lambda kind: -len(rows[kind]))
    return {kind: {"words": len(rows[kind]), "weights": np.mean(rows[kind], 0).tolist()} for kind in ordered}


def true_places(
    captioner: "LoadedCaptioner", captions: "Sequence[Caption]", truth: "Mapping[str, Truth]"
) -> dict[str, float | None]:
    """The mean share of attention on what the subject's box meets in frames that show it, and that of chance.

    None where no word says how it looks.
    """
    import numpy as np

    from watchword.research.shapes.grammar import kind_of

    stream = names_of(captioner)[-1]
    shares: dict[str, list[float]] = {"attention": [], "chance": []}
    for caption in captions:
        if caption.video not in truth:
            raise WatchwordError(f"the truth says nothing of {caption.video}: is it of the run's own data set?")
        looked = caption.attention[stream]  # (T, F, N)
        cells = captioner.features.read([caption.video])[stream].boxes[0].numpy()[: looked.shape[1], : looked.shape[2]]
        own = truth[caption.video]
        meets = on_subject(cells, own.boxes[: len(cells), own.subject], own.visible[: len(cells), own.subject])
        for place, word in enumerate(caption.words):
            if place and kind_of(word) in OF_THE_SUBJECT:
                shares["attention"].append(float(looked[place][meets].sum()))
                shares["chance"].append(float(meets.mean()))
    return {name: float(np.mean(values)) if values else None for name, values in shares.items()}


def on_subject(cells: "FloatArray", boxes: "FloatArray", visible: "NDArray[np.bool_]") -> "NDArray[np.bool_]":
    """cells (F, N, 4), the subject's box (F, 4), whether it is seen (F,) -> cells that it meets, (F, N) bool."""
    import numpy as np

    low = np.maximum(cells[..., :2], boxes[:, None, :2])
    high = np.minimum(cells[..., 2:], boxes[:, None, 2:])
    meets: NDArray[np.bool_] = (high > low).all(-1) & visible[:, None]
    return meets


def draw(captioner: "LoadedCaptioner", caption: "Caption", weights: "FloatArray", film: Path) -> Any:
    from watchword.research.papers.dual_afr_figure import WordLook, draw_looks, strongest_places
    from watchword.video import At, ShortSide, read_frames

    stream = names_of(captioner)[-1]
    seen = captioner.features.read([caption.video])[stream]
    best = strongest_places(caption.attention[stream])
    moments = sorted({moment for moment, _ in best})
    times = seen.times[0].numpy()
    pictures = read_frames(film, At(tuple(float(times[moment]) for moment in moments)), ShortSide(PIXELS)).pictures
    looks = []
    for word, (moment, place), own in zip(caption.words, best, weights, strict=True):
        box = seen.boxes[0, moment, place].numpy()
        looks.append(WordLook(word, float(times[moment]), pictures[moments.index(moment)], box, own))
    return draw_looks(looks, names_of(captioner))



def print_table(found: dict[str, Any], split: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("words", "said", *found["layers"], title=f"{split}: mean weight of each layer", title_justify="left")
    for kind, row in found["kinds"].items():
        table.add_row(kind, f"{row['words']:,}", *(f"{weight:.3f}" for weight in row["weights"]))
    Console().print(table)
    share, chance = (found.get("places", {}).get(name) for name in ("attention", "chance"))
    if share is not None:
        typer.echo(f"attention on cells that the subject meets: {share:.1%}, by chance {chance:.1%}")
