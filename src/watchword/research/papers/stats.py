"""`watchword heatmap RUN VIDEO --output heat.png`: for each word the frame that it looked at (STaTS, Fig. 6 to 9)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._options import Films
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    from watchword.training.captioner import LoadedCaptioner
    from watchword.types import Caption

SIDE = 160  # pixels of a picture's short side


def heatmap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    video: Annotated[str, typer.Argument(help="A video of the run's data set.")],
    output: Annotated[Path, typer.Option(help="The picture, .png or .jpg.")] = Path("heatmap.png"),
    films: Films = None,
    stream: Annotated[str, typer.Option(help="The stream whose attention is drawn; the run's first.")] = "",
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
) -> None:
    """Describe a video and draw, for each word, the frame that it looked at most, with its places as heat.

    watchword heatmap runs/msrvtt_stats video7020 --output heat.png
    """
    from watchword.research.papers.stats_figure import draw_words
    from watchword.training.captioner import LoadedCaptioner
    from watchword.video import At, ShortSide, read_frames

    captioner = LoadedCaptioner.load(run)
    film = captioner.video_path(video, films)
    (caption,) = captioner.describe([video], beam)
    if not caption.attention:
        raise WatchwordError(f"{run} is a model without attention: there is nothing to draw")
    stream = stream or next(iter(caption.attention))
    if stream not in caption.attention:
        raise unknown("stream of this run's attention", stream, caption.attention)
    seen = captioner.features.read([video])[stream]
    attention = caption.attention[stream]
    moments, places = attention.shape[1:]
    frames = read_frames(film, At(tuple(float(time) for time in seen.times[0, :moments])), ShortSide(SIDE))
    notes = _shares(captioner, caption, stream)
    picture = draw_words(frames, caption.words, attention, seen.boxes[0, :moments, :places].numpy(), notes)
    try:
        picture.save(output)
    except (OSError, ValueError) as error:
        raise WatchwordError(f"cannot write {output}: {error}; name a .png or .jpg") from error
    typer.echo(f"{caption.text}\n{output}")


def _shares(captioner: "LoadedCaptioner", caption: "Caption", stream: str) -> list[str]:
    """What Eq. 12 gave to ST for each word, where the model is `stats` and has both ways of looking."""
    import torch

    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats) or model.config.variant != "stats":
        return []
    sentence = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
    with torch.no_grad():
        states = model.retrace(captioner.features.read([caption.video]), sentence)
    return [f"ST {float(model.share_of_st(state)[stream]):.0%}" for state in states]
