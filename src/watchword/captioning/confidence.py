"""How sure a sentence is, as a number that means something.

A captioner's own probabilities rank its sentences only roughly. So signs of a good sentence are weighed by what was
seen on a validation split: the confidence of a sentence is the probability that it agrees with what people say about
its film at least as well as a person's sentence about some film does (CIDEr-D against the other people's captions). It
is a logistic regression on the share of people's sentences that are no better; what other data sets taught keeps it
sober on few films.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.atomic_io import write_whole
from watchword.errors import WatchwordError

FILE = "calibration.json"
# What is known beforehand: on MSVD's validation split the slopes (for one standard deviation of the sign) were 0.59,
# 0.63 and 0.78 with three captioners, each with an information of about 16; those of the agreement 0.33 and 0.42 with
# two, drawn to 0 by the ridge (a sentence was then compared with what people said about its own film alone). Half of
# that speaks in every fit: a validation split of 50 films alone may say anything.
PRIOR = {"mean_log_probability": 0.6, "agreement": 0.5}
RIDGE = 8.0

Signs = Mapping[str, float]


def signs(log_probs: Sequence[float], agreement: float | None = None) -> dict[str, float]:
    """What can be seen of a sentence without knowing whether it is right: how much of what could be said agrees with it
    (where sentences voted), else its words' and its end's probabilities.

    One sign is enough: on the 100 validation videos of MSVD, with two captioners, neither the least likely word, the
    number and rarity of words, the agreement among beams, the gap to the second, nor what the film adds to a blind
    guess predicted people's agreement better together with the mean than the mean alone (docs/guide/describe.md).
    """
    if agreement is not None:
        return {"agreement": agreement}
    return {"mean_log_probability": float(np.mean(log_probs))}


@dataclass(frozen=True)
class Calibration:
    """Signs to a probability: sigmoid(bias + sum of weight * (sign - centre) / scale)."""

    bias: float
    centre: dict[str, float]
    scale: dict[str, float]
    weight: dict[str, float]
    about: dict[str, Any]  # on what it was fitted, and how well it ranks films that it was not fitted on

    def __call__(self, found: Signs) -> float:
        total = self.bias
        for name, weight in self.weight.items():
            total += weight * (found[name] - self.centre[name]) / self.scale[name]
        return float(1 / (1 + np.exp(-np.clip(total, -50, 50))))

    @classmethod
    def load(cls, folder: Path) -> "Calibration | None":
        """Of a captioner's folder; None where there is none: a run that was never calibrated."""
        path = folder / FILE
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise WatchwordError(f"{path} is damaged ({error}): watchword calibrate makes it again") from error

    def save(self, folder: Path) -> None:
        write_whole(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


def confidence(calibration: Calibration | None, found: Signs) -> float:
    """Uncalibrated it is the agreement, or the (geometric) mean probability of a word: it ranks, and means no more."""
    if calibration and calibration.weight.keys() <= found.keys():
        return calibration(found)
    return found["agreement"] if "agreement" in found else float(np.exp(min(found["mean_log_probability"], 0.0)))


def fit(found: Sequence[Signs], shares: Sequence[float], about: Mapping[str, Any] | None = None) -> Calibration:
    """The calibration that makes the shares likeliest; `shares` in 0..1, one a sentence."""
    names = list(found[0])
    values = np.array([[one[name] for name in names] for one in found], np.float64)  # (n, signs)
    centre, scale = values.mean(0), values.std(0)
    scale[scale < 1e-9] = 1.0  # a sign that never differs says nothing
    design = np.concatenate([np.ones((len(values), 1)), (values - centre) / scale], 1)
    prior = np.array([0.0, *(PRIOR.get(name, 0.0) for name in names)])
    weights = _logistic(design, np.asarray(shares, np.float64), prior)

    def by_name(numbers: NDArray[np.float64]) -> dict[str, float]:
        return {name: float(number) for name, number in zip(names, numbers, strict=True)}

    return Calibration(float(weights[0]), by_name(centre), by_name(scale), by_name(weights[1:]), dict(about or {}))


def _logistic(
    design: NDArray[np.float64], shares: NDArray[np.float64], prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method, drawn to the prior. The bias is held lightly: shares of 1 alone do not send it to infinity."""
    ridge = np.full(design.shape[1], RIDGE)
    ridge[0] = 1e-2
    weights = np.zeros(design.shape[1])
    for _ in range(50):
        odds = 1 / (1 + np.exp(-np.clip(design @ weights, -50, 50)))
        slope = design.T @ (shares - odds) - ridge * (weights - prior)
        bend = (design * (odds * (1 - odds))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(bend, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return weights


def out_of_fold(found: Sequence[Signs], shares: Sequence[float], folds: int = 10, seed: int = 0) -> NDArray[np.float64]:
    """For each sentence the confidence of a calibration that has not seen its film: what ranking is measured with."""
    order = np.random.default_rng(seed).permutation(len(found))
    answer = np.zeros(len(found))
    for part in np.array_split(order, min(folds, len(found))):
        hidden = set(part.tolist())
        seen = [row for row in range(len(found)) if row not in hidden]
        calibration = fit([found[row] for row in seen], [shares[row] for row in seen])
        for row in part:
            answer[row] = calibration(found[row])
    return answer


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rho, ties sharing their ranks; 0 where one side never differs."""
    ranks = [_ranks(np.asarray(values, np.float64)) for values in (one, other)]
    spreads = [values.std() for values in ranks]
    if min(spreads) == 0:
        return 0.0
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spreads[0] * spreads[1]))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    middle: NDArray[np.float64] = (ends - (counts - 1) / 2)[place]
    return middle
