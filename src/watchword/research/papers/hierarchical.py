"""`watchword research regions`: the regions that a run attends to (Fig. 4 of Dong et al. 2018)."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Videos
from watchword.errors import WatchwordError
from watchword.research.charts import save_picture


def regions(
    run: Annotated[Path, typer.Argument(help="A run whose model attends to locations of a stream.")],
    video: Annotated[str, typer.Argument(help="The id of a video in the run's store.")],
    videos: Videos = None,
    stream: Annotated[str, typer.Option(help="The stream to draw.")] = "regions",
    store: Annotated[Path | None, typer.Option(help="Another feature store than the run's own.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder for VIDEO.json and VIDEO.png")] = Path(
        "regions"
    ),
) -> None:
    """Draw frames in which the regions with large weights stay and everything else fades.

    The JSON file has the times, boxes and weights of every frame.

    watchword research regions runs/msrvtt_hierarchical video7 --videos clips --output pictures
    """
    import numpy as np

    from watchword.atomic_io import check_outputs, write_whole
    from watchword.captioning.captioner import Captioner
    from watchword.research.papers.hierarchical_figure import Salience, draw_on_video, within_frames

    captioner = Captioner.load(run, store)
    if stream not in captioner.features.streams:
        raise WatchwordError(f"{run} reads {', '.join(captioner.features.streams)}, not {stream}: name one by --stream")
    caption = captioner.caption_stored([video])[0]
    if stream not in caption.attention:
        raise WatchwordError(f"the model of {run} does not attend to {stream}: try another --stream")
    arrays = captioner.features.read([video])[stream]
    weights = within_frames(np.asarray(caption.attention[stream], np.float64))  # (F, N)
    frames, locations = weights.shape
    boxes = arrays.boxes[0, :frames, :locations].numpy()
    salience = Salience(video, caption.text, arrays.times[0, :frames].numpy(), boxes, weights)
    path = captioner.video_file(video, videos)
    check_outputs([output / f"{video}.json", output / f"{video}.png"], [path])
    output.mkdir(parents=True, exist_ok=True)
    write_whole(output / f"{video}.json", json.dumps(salience.to_json(), indent=1) + "\n")
    save_picture(draw_on_video(path, salience), output / f"{video}.png")
    typer.echo(f"{caption.text}\n{output / f'{video}.png'}, {output / f'{video}.json'}")
