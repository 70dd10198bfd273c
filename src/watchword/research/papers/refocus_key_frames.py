"""`watchword research key-frames`: what another key frame of the second pass would gain (Shi et al. 2019).

Every reference is scored with every frame as the key frame, without dropout and sampled words. The best key frame of
some references is not that of others: it is chosen by one half of a video's references and measured on the other half.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Json
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.types import Clip, FloatArray

SPLITS = 20  # random halves of a video's references
Measures = dict[str, tuple[float, float]]  # name -> mean over videos and its standard error

MEANINGS = {
    "oracle": "the best key frame of one half of the references, on the other half",
    "optimistic": "the best key frame of all references, on the same references",
    "chosen": "the key frame that the model chooses",
    "random": "all key frames, averaged",
    "ends": "the first and the last frame, averaged",
    "event": "key frames in the event, averaged",
    "outside": "key frames outside the event, averaged",
    "event_ends": "the first and the last frame of the event, averaged",
    "agreement": "both halves have the same best key frame",
    "agreement_chance": "... by chance",
    "reliability": "correlation of a key frame's gain on both halves",
    "best_at_ends": "the best key frame is the first or the last",
    "best_at_ends_chance": "... by chance",
    "words": "tokens of a reference: a gain over them is one in nats a token",
}


@dataclass(frozen=True)
class KeyFrameLosses:
    """One video."""

    video: str
    losses: "FloatArray"  # (F, S): nats of each reference, by the key frame
    middle: int
    key: int  # the chosen one
    words: float  # of a reference, its end among them


def key_frames(
    runs: Annotated[list[Path], typer.Argument(help="Runs of model refocus, variant vre.")],
    split: Annotated[str, typer.Option(help="The split whose references are scored.")] = "val",
    truth: Annotated[Path | None, typer.Option(help="truth.jsonl of drawn or spliced videos: the true events.")] = None,
    as_json: Json = False,
) -> None:
    """Measure how much any choice of the key frame gains over the middle frame, in nats a caption.

    watchword research key-frames runs/msvd_refocus --split test
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.captioning.captioner import Captioner
    from watchword.cli._progress import bar
    from watchword.data.benchmarks import read_clips
    from watchword.research.shapes import read_events

    events = read_events(truth) if truth else None
    found: dict[str, Measures] = {}
    for run in runs:
        captioner = Captioner.load(run)
        clips = read_clips(captioner.bundle.recipe.data).split(split)
        captioner.features.check([clip.video for clip in clips])
        videos = []
        with bar(transient=True) as progress:
            task = progress.add_task(f"{run.name}: key frames of {split}", total=len(clips))
            for clip in clips:
                videos.append(losses_by_key_frame(captioner, clip))
                progress.update(task, advance=1)
        found[run.name] = gains(videos, events)
    if as_json:
        rows = {run: {name: {"mean": m, "error": e} for name, (m, e) in own.items()} for run, own in found.items()}
        print(json.dumps({"split": split, "runs": rows}))
        return
    title = f"{split}: nats a caption gained over the middle frame"
    table = Table("", *found, "", title=title, title_justify="left")
    for name in next(iter(found.values())):
        cells = (f"{mean:.4f} +- {error:.4f}" for mean, error in (own[name] for own in found.values()))
        table.add_row(name.replace("_", " "), *cells, MEANINGS[name])
    Console().print(table)


def losses_by_key_frame(captioner: "Captioner", clip: "Clip") -> KeyFrameLosses:
    """Every frame stands in a row of the batch as the key frame."""
    import torch

    from watchword.data.dataset import encode_captions, pad_captions
    from watchword.decoding import teacher_force
    from watchword.layers.attention import num_time_steps
    from watchword.losses.objective import word_losses
    from watchword.research.papers.refocus_figure import OnePass, with_two_passes
    from watchword.tensors import PAD, UNK, Stream

    model = with_two_passes(captioner)
    tokens = encode_captions(clip.captions, captioner.vocabulary, captioner.bundle.recipe.data.max_words)
    if not tokens:
        raise WatchwordError(f"no caption of {clip.video} has a word")
    streams = captioner.features.read([clip.video])
    with torch.no_grad():
        _, _, _, chosen = model.encode_passes(streams)
        frames = max(1, int(num_time_steps(streams[model.temporal].mask.any(-1))))
        again = {
            name: Stream(*(part.expand(frames, *part.shape[1:]) for part in vars(stream).values()))
            for name, stream in streams.items()
        }
        captions = pad_captions([tokens])[:, :, 1:].expand(frames, -1, -1)  # (F, S, T)
        outputs = teacher_force(OnePass(model, 1, torch.arange(frames)), again, captions).outputs
        real = (captions != PAD) & (captions != UNK)
        losses = word_losses(model.logits(outputs[real]), captions[real])
        of_captions = losses.new_zeros(captions.shape).masked_scatter(real, losses).sum(-1)  # (F, S)
    middle, words = int(model.middle_frames(streams)), float(real[0].sum()) / len(tokens)
    return KeyFrameLosses(clip.video, of_captions.double().numpy(), middle, int(chosen), words)


def gains(videos: Sequence[KeyFrameLosses], events: Mapping[str, tuple[int, int]] | None) -> Measures:
    """Means over the videos that have two references and more, with standard errors."""
    import numpy as np

    from watchword.research.papers.refocus import event_of

    random = np.random.default_rng(0)
    rows: list[dict[str, float]] = []
    halves: list[list[FloatArray]] = [[], []]  # of each video the gains by key frame, less their mean
    for one in videos:
        gain = one.losses[one.middle] - one.losses  # (F, S)
        frames, captions = gain.shape
        if captions < 2:
            continue
        found: dict[str, list[float]] = {"oracle": [], "agreement": []}
        for _ in range(SPLITS):
            order = random.permutation(captions)
            means = [gain[:, half].mean(1) for half in (order[::2], order[1::2])]
            best = [int(mean.argmax()) for mean in means]
            found["oracle"] += [means[1][best[0]], means[0][best[1]]]
            found["agreement"].append(best[0] == best[1])
            for own, mean in zip(halves, means, strict=True):
                own.append(mean - mean.mean())
        by_key = gain.mean(1)
        row = {name: float(np.mean(values)) for name, values in found.items()} | {
            "optimistic": by_key.max(),
            "chosen": by_key[one.key],
            "random": by_key.mean(),
            "ends": by_key[[0, -1]].mean(),
            "agreement_chance": 1 / frames,
            "best_at_ends": float(by_key.argmax() in (0, frames - 1)),
            "best_at_ends_chance": min(1, 2 / frames),
            "words": one.words,
        }
        if events is not None:
            start, end = event_of(events, one.video, frames)
            outside = np.delete(by_key, np.arange(start, end))
            row |= {
                "event": by_key[start:end].mean(),
                "outside": outside.mean() if len(outside) else 0.0,
                "event_ends": by_key[[start, end - 1]].mean(),
            }
        rows.append(row)
    if not rows:
        raise WatchwordError("no video has two references: there is nothing to choose a key frame by")
    table = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    measures = {name: (float(own.mean()), float(own.std() / len(own) ** 0.5)) for name, own in table.items()}
    one_half, other = (np.concatenate(own) for own in halves)
    varies = min(one_half.std(), other.std()) > 0
    measures["reliability"] = (float(np.corrcoef(one_half, other)[0, 1]) if varies else 0.0, 0.0)
    return {name: measures[name] for name in MEANINGS if name in measures}
