"""Minimum Bayes risk decoding: the candidate that agrees best with captions sampled from the model."""

from collections.abc import Sequence

import torch
from torch import Tensor

from watchword.decoding.search import Hypotheses, StepModel, arithmetic_sample, beam
from watchword.tensors import PAD, Streams


def mbr_decode(
    model: StepModel,
    streams: Streams,
    num_captions: int,
    max_words: int,
    *,
    beams: int = 5,
    num_best: int | None = None,
    length_power: float = 0.5,
    content: Sequence[float] | None = None,
) -> Hypotheses:
    """The `num_best` candidates (or `beams`) with the least Bayes risk (Kumar and Byrne 2004) by n-gram similarity.

    The most likely caption is often atypical. The candidates come from a beam twice as wide; the score of each is its
    mean similarity to `num_captions` samples of the model, 0..1, so it is also a measure of confidence. Where the beam
    finds fewer candidates, the others score -inf.
    """
    samples = arithmetic_sample(model, streams, num_captions, max_words).captions
    found = beam(model, streams, 2 * beams, max_words, num_best=2 * beams, length_power=length_power)
    candidates = found.captions  # (B, C, T)
    agreement = ngram_similarity(candidates, samples, content).mean(-1).masked_fill(found.scores.isinf(), float("-inf"))
    scores, order = agreement.topk(num_best or beams, -1)
    return Hypotheses(candidates.gather(1, order.unsqueeze(-1).expand(-1, -1, candidates.shape[2])), scores)


def ngram_similarity(some: Tensor, others: Tensor, content: Sequence[float] | None = None, longest: int = 4) -> Tensor:
    """Similarity of captions, (B, S, T) and (B, S', T') -> (B, S, S'): the mean cosine of weighted n-gram counts.

    It is CIDEr's similarity, but the weight of an n-gram is the largest information content (`content`) of its words:
    CIDEr's own table of document frequencies would be larger than a captioner. Without `content` all weights are 1.
    """
    if content is None:
        content = [1.0] * (int(max(some.max(), others.max())) + 1)
    weights = torch.tensor(content, device=some.device)
    total = torch.zeros(some.shape[0], some.shape[1], others.shape[1], device=some.device)
    for order in range(1, longest + 1):
        (mine, my_weights), (theirs, their_weights) = (_grams(part, weights, order) for part in (some, others))
        same = mine[:, :, None, :, None] == theirs[:, None, :, None, :]  # (B, S, S', G, G')
        product = torch.einsum("bstgh,bsg->bst", same.float(), my_weights)
        norms = (_norm(mine, my_weights).unsqueeze(2) * _norm(theirs, their_weights).unsqueeze(1)).sqrt()
        total += product / norms.clamp(min=1e-9)
    return total / longest


def _grams(captions: Tensor, weights: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """The n-grams of captions (B, S, T), one number each, and their squared weights: 0 beyond the end."""
    grams = torch.nn.functional.pad(captions, (0, order - 1), value=PAD).unfold(-1, order, 1)
    digits = len(weights) ** torch.arange(order, device=captions.device)
    heavy = weights[grams].amax(-1).square()
    return (grams * digits).sum(-1), heavy.masked_fill((grams == PAD).any(-1), 0)


def _norm(grams: Tensor, weights: Tensor) -> Tensor:
    """The squared norm of a vector of weighted counts, (B, S): a squared count is the number of equal pairs."""
    same = grams.unsqueeze(-1) == grams.unsqueeze(-2)
    return (same.float() @ weights.unsqueeze(-1)).squeeze(-1).sum(-1)
