"""The ablation of G2L, Fig. 6, for any run: scores with the smaller weights of each attention head set to 0."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from watchword.captioning.captioner import Captioner
from watchword.data.benchmarks import read_clips
from watchword.errors import WatchwordError
from watchword.layers.attention import filter_attention, keep_largest
from watchword.metrics import ReferenceIndex
from watchword.training.evaluation import Search, caption_videos, evaluate, references_of, score_captions
from watchword.training.run import Run


@dataclass(frozen=True)
class AblationCurves:
    """Scores of a split with all weights and without some."""

    run: str
    split: str
    shares: tuple[float, ...]
    whole: dict[str, float]  # metric -> score with all weights
    masked: dict[str, tuple[dict[str, float], ...]]  # head -> scores, one for each share

    def ratios(self, metric: str) -> dict[str, list[float]]:
        """head -> score / score of all weights, for each share."""
        if not self.whole[metric]:
            raise WatchwordError(f"{self.run} scores {metric} 0 on {self.split}: no ratio can be computed")
        return {name: [one[metric] / self.whole[metric] for one in scores] for name, scores in self.masked.items()}


def ablation_curves(
    run: Run,
    split: str,
    shares: Sequence[float],
    search: Search,
    metrics: Sequence[str] | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> AblationCurves:
    """Captions the split with all weights, and for every head and share with the smaller ones at 0."""
    whole = evaluate([run], split, search, metrics)  # checks that run, store and split belong together
    captioner = Captioner.load(run.folder)
    model, features, vocabulary = captioner.model, captioner.features, captioner.vocabulary
    assert isinstance(model, nn.Module)  # a run is one model
    clips = read_clips(run.recipe.data).split(split)
    videos = [clip.video for clip in clips]
    index = ReferenceIndex(references_of(clips))
    masked: dict[str, tuple[dict[str, float], ...]] = {}
    names = head_names(captioner, videos[:1])
    for name in names:
        rows = []
        for share in shares:

            def sieve(here: str, weights: Tensor, mask: Tensor, name: str = name, share: float = share) -> Tensor:
                return keep_largest(weights, mask, share) if here == name else weights

            with filter_attention(model, sieve):
                captions = caption_videos(model, features, videos, vocabulary, search)
            rows.append(score_captions(captions, index, metrics).corpus)
            report(len(masked) * len(shares) + len(rows), len(names) * len(shares))
        masked[name] = tuple(rows)
    return AblationCurves(run.name, split, tuple(shares), whole.scores.corpus, masked)


@torch.no_grad()
def head_names(captioner: Captioner, videos: Sequence[str]) -> list[str]:
    """The attention heads of a model, in the order of their use."""
    found: dict[str, None] = {}

    def note(name: str, weights: Tensor, mask: Tensor) -> Tensor:
        found[name] = None
        return weights

    assert isinstance(captioner.model, nn.Module)
    with filter_attention(captioner.model, note):
        captioner.caption_stored(videos, beam=1)
    if not found:
        raise WatchwordError(f"{captioner.name} has no attention to ablate")
    return list(found)
