"""`watchword research heatmap`: for each word the frame with the largest weight (STaTS, Fig. 6 to 9)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Videos
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.types import Hypothesis

SIDE = 160  # pixels of a picture's short side


def heatmap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    video: Annotated[str, typer.Argument(help="The id of a video in the run's store.")],
    output: Annotated[Path, typer.Option(help="The figure, .png or .jpg.")] = Path("heatmap.png"),
    videos: Videos = None,
    stream: Annotated[str, typer.Option(help="The attention head to draw; default: the first.")] = "",
    beam: Beam = 5,
) -> None:
    """Caption a video and draw, for each word, the frame with the largest weight and its heat map.

    watchword research heatmap runs/msrvtt_stats video7020 --output heat.png
    """
    from watchword.atomic_io import check_outputs
    from watchword.captioning.captioner import Captioner
    from watchword.research.papers.stats_figure import draw_words
    from watchword.video import At, ShortSide, read_frames

    captioner = Captioner.load(run)
    path = captioner.video_file(video, videos)
    check_outputs([output], [path])
    (caption,) = captioner.caption_stored([video], beam)
    if not caption.attention:
        raise WatchwordError(f"{run} has a model without attention")
    stream = stream or next(iter(caption.attention))
    if stream not in caption.attention:
        raise unknown("attention head of this run", stream, caption.attention)
    arrays = captioner.features.read([video])[stream]
    attention = caption.attention[stream]
    steps, locations = attention.shape[1:]
    frames = read_frames(path, At(tuple(float(time) for time in arrays.times[0, :steps])), ShortSide(SIDE))
    notes = _shares(captioner, caption, stream)
    picture = draw_words(frames, caption.words, attention, arrays.boxes[0, :steps, :locations].numpy(), notes)
    try:
        picture.save(output)
    except (OSError, ValueError) as error:
        raise WatchwordError(f"cannot write {output}: {error}; name a .png or .jpg") from error
    typer.echo(f"{caption.text}\n{output}")


def _shares(captioner: "Captioner", caption: "Hypothesis", stream: str) -> list[str]:
    """The weight of ST in Eq. 12 for each word, for a model `stats` with both branches."""
    import torch

    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats) or model.config.variant != "stats":
        return []
    tokens = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
    with torch.no_grad():
        states = model.retrace(captioner.features.read([caption.video]), tokens)
    return [f"ST {float(model.share_of_st(state)[stream]):.0%}" for state in states]
