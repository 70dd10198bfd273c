"""The confidence of a caption: a calibrated probability.

A captioner's own probabilities rank its captions only roughly. Confidence is the probability that a caption agrees with
the references of its video at least as well as a person's caption of some video does, by CIDEr-D against the other
references. It is a logistic regression on the share of references that are no better, with a prior.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from watchword.atomic_io import write_whole
from watchword.documents import parse_json
from watchword.errors import WatchwordError

FILE = "calibration.json"
# The prior: on MSVD's validation split the slopes (for one standard deviation of the feature) were 0.59, 0.63 and 0.78
# with three captioners, each with an information of about 16; those of the agreement were 0.33 and 0.42 with two, drawn
# to 0 by the ridge. Half of that information enters every fit: 50 validation videos alone determine little.
PRIOR = {"mean_log_probability": 0.6, "agreement": 0.5}
RIDGE = 8.0
UNSURE = 0.3  # with less confidence a caption is shown as a question

ConfidenceFeatures = Mapping[str, float]


def in_words(confidence: float) -> str:
    """`confidence 0.64`, or `unsure, 0.21: this is a guess`."""
    return f"unsure, {confidence:.2f}: this is a guess" if confidence < UNSURE else f"confidence {confidence:.2f}"


def confidence_features(log_probs: Sequence[float], agreement: float | None = None) -> dict[str, float]:
    """Features of a caption that predict its quality: how far the MBR samples agree with it, or without MBR the mean
    log probability of its tokens.

    One feature is enough. On the 100 validation videos of MSVD, with two captioners, none of these improved on the mean
    alone: the least likely word, the number and rarity of words, the agreement among beams, the gap to the second
    hypothesis, and the gain over a model that reads no video.
    """
    if agreement is not None:
        return {"agreement": agreement}
    return {"mean_log_probability": float(np.mean(log_probs))}


@dataclass(frozen=True)
class Calibration:
    """Features to a probability: sigmoid(bias + sum of weight * (feature - centre) / scale)."""

    bias: float
    centre: dict[str, float]
    scale: dict[str, float]
    weight: dict[str, float]
    about: dict[str, Any]  # the data of the fit, and how well it ranks held-out videos

    def __post_init__(self) -> None:
        if not all(self.scale.get(name) and name in self.centre for name in self.weight):
            raise ValueError("each weight needs a centre, and a scale that is not 0")

    def __call__(self, features: ConfidenceFeatures) -> float:
        total = self.bias
        for name, weight in self.weight.items():
            total += weight * (features[name] - self.centre[name]) / self.scale[name]
        return float(1 / (1 + np.exp(-np.clip(total, -50, 50))))

    @classmethod
    def load(cls, folder: Path) -> "Calibration | None":
        """From a bundle's folder; None for a run that was never calibrated."""
        path = folder / FILE
        try:
            return TypeAdapter(cls).validate_python(parse_json(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise WatchwordError(f"{path} is damaged ({error}): watchword calibrate makes it again") from error

    def save(self, folder: Path) -> None:
        write_whole(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


def confidence(calibration: Calibration | None, features: ConfidenceFeatures) -> float:
    """Uncalibrated: the agreement, or the geometric mean probability of a token, which only ranks captions."""
    if calibration and calibration.weight.keys() <= features.keys():
        return calibration(features)
    if "agreement" in features:
        return features["agreement"]
    return float(np.exp(min(features["mean_log_probability"], 0.0)))


def fit(
    features: Sequence[ConfidenceFeatures], shares: Sequence[float], about: Mapping[str, Any] | None = None
) -> Calibration:
    """The maximum a posteriori calibration; `shares` in 0..1, one for each caption."""
    names = list(features[0])
    values = np.array([[one[name] for name in names] for one in features], np.float64)  # (captions, features)
    centre, scale = values.mean(0), values.std(0)
    scale[scale < 1e-9] = 1.0  # a constant feature
    design = np.concatenate([np.ones((len(values), 1)), (values - centre) / scale], 1)
    prior = np.array([0.0, *(PRIOR.get(name, 0.0) for name in names)])
    weights = _logistic(design, np.asarray(shares, np.float64), prior)

    def by_name(numbers: NDArray[np.float64]) -> dict[str, float]:
        return {name: float(number) for name, number in zip(names, numbers, strict=True)}

    return Calibration(float(weights[0]), by_name(centre), by_name(scale), by_name(weights[1:]), dict(about or {}))


def _logistic(
    design: NDArray[np.float64], shares: NDArray[np.float64], prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method with a Gaussian prior; a weak one on the bias keeps it finite where all shares are 1."""
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


def out_of_fold(
    features: Sequence[ConfidenceFeatures], shares: Sequence[float], folds: int = 10, seed: int = 0
) -> NDArray[np.float64]:
    """The confidence of each caption from a calibration that was fitted without its video."""
    order = np.random.default_rng(seed).permutation(len(features))
    answer = np.zeros(len(features))
    for part in np.array_split(order, min(folds, len(features))):
        hidden = set(part.tolist())
        seen = [row for row in range(len(features)) if row not in hidden]
        calibration = fit([features[row] for row in seen], [shares[row] for row in seen])
        for row in part:
            answer[row] = calibration(features[row])
    return answer
