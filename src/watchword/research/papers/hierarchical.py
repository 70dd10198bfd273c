"""`watchword regions`: which objects a run looks at, on the film (Fig. 4 of Dong et al. 2018)."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._options import Films
from watchword.errors import WatchwordError


def regions(
    run: Annotated[Path, typer.Argument(help="A run whose model attends to places of a stream.")],
    video: Annotated[str, typer.Argument(help="The video's name in the store of the run.")],
    films: Films = None,
    stream: Annotated[str, typer.Option(help="The stream whose places are drawn.")] = "regions",
    store: Annotated[Path | None, typer.Option(help="Features from elsewhere than where the run was trained.")] = None,
    output: Annotated[Path, typer.Option(help="The folder for VIDEO.json and VIDEO.png")] = Path("regions"),
) -> None:
    """Draw a film in which the objects that the captioner looks at stay and everything else fades.

    The JSON has it as data: times, boxes and weights of every frame.

    watchword regions runs/msrvtt_hierarchical video7 --films clips --output pictures
    """
    import numpy as np

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import console
    from watchword.research.papers.hierarchical_figure import Salience, draw_on_film, within_frames
    from watchword.training.captioner import LoadedCaptioner

    captioner = LoadedCaptioner.load(run, store)
    if stream not in captioner.features.streams:
        raise WatchwordError(f"{run} reads {', '.join(captioner.features.streams)}, not {stream}: name one by --stream")
    caption = captioner.describe([video])[0]
    if stream not in caption.attention:
        raise WatchwordError(f"the model of {run} does not attend to {stream}: try another --stream")
    seen = captioner.features.read([video])[stream]
    weights = within_frames(np.asarray(caption.attention[stream], np.float64))  # (F, N)
    frames, places = weights.shape
    boxes = seen.boxes[0, :frames, :places].numpy()
    salience = Salience(video, caption.text, seen.times[0, :frames].numpy(), boxes, weights)
    film = captioner.video_path(video, films)
    output.mkdir(parents=True, exist_ok=True)
    write_whole(output / f"{video}.json", json.dumps(salience.to_json(), indent=1) + "\n")
    draw_on_film(film, salience).save(output / f"{video}.png")
    console.print(f"{caption.text}\n{output / f'{video}.png'}, {output / f'{video}.json'}")
