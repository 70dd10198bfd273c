"""What models tell of a sentence beyond their attention: the moments they chose, the balances they struck."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from watchword.decoding import Ensemble, StepModel, teacher_force
from watchword.explain.attention import Bars, Mark
from watchword.models.dual_afr import DualAFR
from watchword.models.global2local import Global2Local
from watchword.models.refocus import Refocus
from watchword.models.stats import Stats
from watchword.tensors import Streams

Insight = tuple[tuple[Mark, ...], tuple[Bars, ...]]


@torch.no_grad()
def insight(speaker: StepModel, streams: Streams, sentence: Tensor) -> Insight:
    """Of one video and one sentence, (1, 1, T); marks count seconds as the streams do."""
    members = speaker.models if isinstance(speaker, Ensemble) else (speaker,)
    told = [TOLD[type(member)](member, streams, sentence) for member in members if type(member) in TOLD]
    return tuple(mark for marks, _ in told for mark in marks), tuple(bars for _, some in told for bars in some)


def _key_frames(model: Refocus, streams: Streams, sentence: Tensor) -> Insight:
    """VRE: the middle frame at first, then the one that the first look found most relevant (Eq. 11).

    Who looks once (`kbigru`) begins in the middle of every film: that tells nothing of this one.
    """
    if int(model.passes) < 2:
        return (), ()
    times = streams[model.temporal].times[0]
    *_, key = model.encode_passes(streams)
    first = Mark("first_key_frame", float(times[int(model.middle_frames(streams)[0])]))
    return (first, Mark("key_frame", float(times[int(key[0])]))), ()


def _chosen_frames(model: Global2Local, streams: Streams, sentence: Tensor) -> Insight:
    """G2L: for each word the k frames whose regions it looked at (Eq. 8); others have no weight at all."""
    if not model.local:
        return (), ()
    regions = model.roles["regions"]
    attention = teacher_force(model, streams, sentence, keep_attention=True).attention
    looked = attention[f"local:{regions}"][0, 0]  # (T, F, N)
    times = streams[regions].times[0]
    chosen = looked.sum(-1).nonzero().tolist()
    return tuple(Mark("chosen_frame", float(times[moment]), word) for word, moment in chosen), ()


def _layers(model: DualAFR, streams: Streams, sentence: Tensor) -> Insight:
    """dualAFR: beta of Eq. 7, the lowest layer first."""
    if len(model.layers) < 2:
        return (), ()
    weights = np.asarray(model.layer_weights(streams, sentence)[0, 0])  # (T, L)
    return (), (Bars("layers", tuple(model.layers), weights),)


def _ways_of_looking(model: Stats, streams: Streams, sentence: Tensor) -> Insight:
    """STaTS: what Eq. 12 gave to places first (ST) and to moments first (TS), of each stream."""
    if model.config.variant != "stats":
        return (), ()
    shares = [model.share_of_st(state) for state in model.retrace(streams, sentence)]
    found = []
    for stream in model.looked_at:
        share = np.array([float(one[stream]) for one in shares])  # (T,)
        found.append(Bars(f"ways of looking at {stream}", ("ST", "TS"), np.stack([share, 1 - share], 1)))
    return (), tuple(found)


TOLD: dict[type, Callable[[Any, Streams, Tensor], Insight]] = {
    Refocus: _key_frames,
    Global2Local: _chosen_frames,
    DualAFR: _layers,
    Stats: _ways_of_looking,
}
