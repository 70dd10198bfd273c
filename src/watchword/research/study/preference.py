"""Preferences of people between the captions of two systems, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watchword.errors import WatchwordError
from watchword.metrics.statistics import Interval

OUTCOMES = ("first", "second", "same")  # the preferred system, or neither


@dataclass(frozen=True)
class Judgement:
    """One person's answer to one question about one video."""

    video: str
    question: str
    outcome: str  # one of OUTCOMES


@dataclass(frozen=True)
class Preference:
    """The answers to one question."""

    answers: int
    videos: int
    shares: dict[str, float]  # of OUTCOMES, they add up to 1
    intervals: dict[str, Interval]  # of the shares
    lead: Interval  # of the second's share less the first's


def preferences(
    judgements: Sequence[Judgement], samples: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> dict[str, Preference]:
    """By question, in the order in which questions first come.

    Intervals are percentiles over videos drawn with replacement, each with all its answers: people who look at the
    same two captions answer alike, so answers are not independent of each other, videos are.
    """
    found = {}
    for question in dict.fromkeys(one.question for one in judgements):
        own = [one for one in judgements if one.question == question]
        videos = list(dict.fromkeys(one.video for one in own))
        row = {video: number for number, video in enumerate(videos)}
        counts = np.zeros((len(videos), len(OUTCOMES)))
        for one in own:
            if one.outcome not in OUTCOMES:
                raise WatchwordError(f"an answer about {one.video} is {one.outcome!r}, expected {', '.join(OUTCOMES)}")
            counts[row[one.video], OUTCOMES.index(one.outcome)] += 1
        draws = np.random.default_rng(seed).multinomial(len(videos), np.full(len(videos), 1 / len(videos)), samples)
        drawn = draws @ counts
        shares = drawn / drawn.sum(1, keepdims=True)  # (samples, 3)
        limits = [50 * (1 - confidence), 50 * (1 + confidence)]
        spans = {}
        for name, values in zip((*OUTCOMES, "lead"), (*shares.T, shares[:, 1] - shares[:, 0]), strict=True):
            low, high = np.percentile(values, limits)
            spans[name] = Interval(float(low), float(high), confidence)
        lead = spans.pop("lead")
        total = counts.sum(0) / counts.sum()
        named = dict(zip(OUTCOMES, total.tolist(), strict=True))
        found[question] = Preference(len(own), len(videos), named, spans, lead)
    return found
