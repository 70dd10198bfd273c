"""`watchword research splice`: videos with a true event, from the stored features of real ones.

The event is some frames of one video, in a row and in their order; every other frame is of another video of the split.
The captions are those of the event. So the premise of Watch It Twice (Shi et al. 2019, Fig. 1), an event somewhere
among frames that show something else, holds by construction, and where the event is, is known.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.features.store import Store
    from watchword.types import StreamArrays

Frame = tuple[str, int]  # a video and one of its time steps


def splice(
    recipe: Annotated[str, typer.Argument(help="The recipe whose clips and features are spliced.")],
    output: Annotated[Path, typer.Argument(help="A new folder: captions.jsonl, truth.jsonl, store/.")],
    words: Annotated[list[str] | None, typer.Argument(help="key=value settings of the recipe")] = None,
    frames: Annotated[int, typer.Option(min=2, help="Frames of each spliced video.")] = 20,
    event: Annotated[int, typer.Option(min=1, help="Of these, frames of the event.")] = 7,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same videos.")] = 0,
) -> None:
    """Put an event, frames of one video, among frames of other videos of the same split; write where it is.

    Pooled streams and grids are spliced alike. A video that has fewer frames than the event gives all that it has.

    watchword research splice msvd/refocus data/spliced 'data.streams=["appearance"]'
    """
    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar
    from watchword.config import find_recipe, read_recipe
    from watchword.data.benchmarks import read_clips, store_path
    from watchword.features.store import Store
    from watchword.types import StreamName

    data = read_recipe(find_recipe(recipe), words or ()).data
    if event >= frames:
        raise WatchwordError(f"an event of {event} frames leaves no room in {frames}: raise --frames")
    if output.exists() and any(output.iterdir()):
        raise WatchwordError(f"{output} is not empty: choose another folder")
    clips, source, target = read_clips(data).clips, Store(store_path(data)), Store(output / "store")
    steps = {clip.video: source.shape(clip.video, data.required_streams[0])[0] for clip in clips}
    random = Random(seed)
    events: dict[str, tuple[int, int]] = {}
    with bar(transient=True) as progress:
        task = progress.add_task("splicing", total=len(clips))
        for clip in clips:
            others = [other.video for other in clips if other.split == clip.split and other.video != clip.video]
            chosen, events[clip.video] = place_event(clip.video, others, steps, frames, event, random)
            for stream in data.required_streams:
                settings = {"spliced": ",".join(source.keys(stream)), "frames": frames, "event": event, "seed": seed}
                target.write(clip.video, StreamName.parse(stream).base, spliced(source, stream, chosen), settings)
            progress.update(task, advance=1)
    spoken = [{"video": clip.video, "split": clip.split, "captions": clip.captions} for clip in clips]
    true = [{"video": video, "event": inside} for video, inside in events.items()]
    write_whole(output / "captions.jsonl", "".join(f"{json.dumps(row)}\n" for row in spoken))
    write_whole(output / "truth.jsonl", "".join(f"{json.dumps(row)}\n" for row in true))
    mean = sum(end - start for start, end in events.values()) / len(events)
    typer.echo(
        f"{len(events):,} videos of {frames} frames, {mean:.1f} of them the event; train with data.captions="
        f"{output / 'captions.jsonl'} data.store={output / 'store'}"
    )


def place_event(
    video: str, others: Sequence[str], steps: Mapping[str, int], frames: int, event: int, random: Random
) -> tuple[list[Frame], tuple[int, int]]:
    """The frames of a spliced video, and the event's first frame and the one after it.

    `steps`: video -> its number of frames. All places of the event are equally likely.
    """
    from watchword.types import evenly

    own = [(video, int(row)) for row in evenly(steps[video], event)]
    if len(others) < frames - len(own):
        raise WatchwordError(f"{video} needs frames of {frames - len(own)} other videos, there are {len(others)}")
    around = [(other, random.randrange(steps[other])) for other in random.sample(others, frames - len(own))]
    start = random.randint(0, len(around))
    return [*around[:start], *own, *around[start:]], (start, start + len(own))


def spliced(store: "Store", stream: str, frames: Sequence[Frame]) -> "StreamArrays":
    """A stream of these frames, one a second."""
    import numpy as np

    from watchword.types import StreamArrays

    read = {video: store.read(video, stream) for video in dict(frames)}
    missing = any(row >= len(read[video].values) for video, row in frames)
    if missing or len({arrays.values.shape[1] for arrays in read.values()}) > 1:
        raise WatchwordError(f"{stream} has other frames than the first stream, or locations that vary: leave it out")
    boxes, masks = [], []
    for video, row in frames:
        arrays = read[video]
        boxes.append(arrays.boxes[row] if arrays.boxes.ndim == 3 else arrays.boxes)
        masks.append(np.ones(len(boxes[-1]), bool) if arrays.mask is None else arrays.mask[row])
    values = np.stack([read[video].values[row] for video, row in frames])
    return StreamArrays(values, np.arange(len(frames), dtype=np.float64), np.stack(boxes), np.stack(masks))
