"""The masking curve of G2L, Fig. 6, of any run: how much of each attention's smaller weights can be done without."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from watchword.data.benchmarks import read_clips
from watchword.errors import WatchwordError
from watchword.layers.masking import attentions_through, keep_largest
from watchword.metrics import ReferenceIndex
from watchword.training.captioner import LoadedCaptioner
from watchword.training.evaluation import Search, caption_videos, evaluate, references_of, score_captions
from watchword.training.run import Run


@dataclass(frozen=True)
class MaskingCurves:
    """Scores of a split, whole and with attention taken away."""

    run: str
    split: str
    shares: tuple[float, ...]
    whole: dict[str, float]                              # metric -> score with all weights
    masked: dict[str, tuple[dict[str, float], ...]]      # attention -> scores, one for each share

    def ratios(self, metric: str) -> dict[str, list[float]]:
        """attention -> masked score / whole score, for each share."""
        if not self.whole[metric]:
            raise WatchwordError(f"{self.run} scores {metric} 0 on {self.split}: there is nothing to compare with")
        return {name: [one[metric] / self.whole[metric] for one in scores] for name, scores in self.masked.items()}


def masking_curves(
    run: Run,
    split: str,
    shares: Sequence[float],
    search: Search,
    metrics: Sequence[str] | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> MaskingCurves:
    """Describes the split once with all weights, and once for every attention and share with the smaller ones at 0."""
    whole = evaluate([run], split, search, metrics)  # checks that run, store and split belong together
    captioner = LoadedCaptioner.load(run.folder)
    model, features, vocabulary = captioner.model, captioner.features, captioner.vocabulary
    clips = read_clips(run.recipe.data).split(split)
    videos = [clip.video for clip in clips]
    index = ReferenceIndex(references_of(clips))
    masked: dict[str, tuple[dict[str, float], ...]] = {}
    names = attention_names(captioner, videos[:1])
    for name in names:
        rows = []
        for share in shares:
            def sieve(here: str, weights: Tensor, mask: Tensor, name: str = name, share: float = share) -> Tensor:
                return keep_largest(weights, mask, share) if here == name else weights

            with attentions_through(model, sieve):
                captions = caption_videos(model, features, videos, vocabulary, search)
            rows.append(score_captions(captions, index, metrics).corpus)
            report(len(masked) * len(shares) + len(rows), len(names) * len(shares))
        masked[name] = tuple(rows)
    return MaskingCurves(run.name, split, tuple(shares), whole.scores.corpus, masked)


@torch.no_grad()
def attention_names(captioner: LoadedCaptioner, videos: Sequence[str]) -> list[str]:
    """The attentions that a model has, in the order in which it uses them."""
    heard: dict[str, None] = {}

    def listen(name: str, weights: Tensor, mask: Tensor) -> Tensor:
        heard[name] = None
        return weights

    with attentions_through(captioner.model, listen):
        captioner.describe(videos, beam=1)
    if not heard:
        raise WatchwordError(f"{captioner.run.name} has no attention that could be masked")
    return list(heard)
