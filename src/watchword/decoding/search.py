"""Searches over the `step` of any model: teacher forcing, greedy, sampling, beam search, MBR decoding.

Everything is batched over videos and captions, (B, S): there is no Python loop over either. A caption begins after BOS,
ends with EOS (unless it is cut at `max_words`, EOS counted) and is padded with PAD. Its score is the sum of the log
probabilities of its words and EOS, divided by length ** length_power.
MBR decoding (minimum Bayes risk) takes the candidate that agrees best with captions sampled from the model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import pad

from watchword.tensors import BOS, EOS, PAD, Memory, State, Step, Streams, reorder


class StepModel(Protocol):
    """What decoding needs of a model, or of an ensemble of models."""

    def encode(self, streams: Streams) -> tuple[Memory, State]: ...
    def step(self, words: Tensor, memory: Memory, state: State) -> Step: ...
    def log_probabilities(self, outputs: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Hypotheses:
    """Candidate captions of each video, the best first."""

    captions: Tensor  # (B, S, T)
    scores: Tensor  # (B, S)


@dataclass(frozen=True)
class TeacherForced:
    """The outputs and attention of a model over given captions."""

    outputs: Tensor  # (B, S, T, H) before each word
    attention: dict[str, Tensor]  # stream -> (B, S, T, F, N); empty unless asked for


@runtime_checkable
class UnrolledModel(StepModel, Protocol):
    """A step model that reads given captions faster than word by word."""

    def unroll(self, words: Tensor, memory: Memory, state: State, keep_attention: bool) -> TeacherForced: ...


def stack_attention(steps: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The attention of each word, (B, S, F, N), as one tensor a stream, (B, S, T, F, N)."""
    return {name: torch.stack([one[name] for one in steps], 2) for name in steps[0]}


def expand_state(state: State, num_captions: int) -> State:
    """The state before the first word, (B, 1, ...), for S captions a video: a view, nothing is copied."""
    return {name: tensor.expand(-1, num_captions, *tensor.shape[2:]) for name, tensor in state.items()}


def teacher_force(
    model: StepModel,
    streams: Streams,
    captions: Tensor,
    *,
    keep_attention: bool = False,
    replace: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> TeacherForced:
    """The outputs of the model before each word of given captions (B, S, T), which it reads as its input.

    `replace(outputs, words)` may replace the words that the model reads next (scheduled sampling).
    """
    memory, state = model.encode(streams)
    state = expand_state(state, captions.shape[1])
    if replace is None and isinstance(model, UnrolledModel):
        return model.unroll(pad(captions[:, :, :-1], (1, 0), value=BOS), memory, state, keep_attention)
    words = torch.full_like(captions[:, :, 0], BOS)
    outputs, attentions = [], []
    for time in range(captions.shape[2]):
        step = model.step(words, memory, state)
        outputs.append(step.outputs)
        attentions.append(step.attention if keep_attention else {})
        state, words = step.state, captions[:, :, time]
        if replace is not None:
            words = replace(step.outputs, words)
    return TeacherForced(torch.stack(outputs, 2), stack_attention(attentions))


def rescore(model: StepModel, streams: Streams, captions: Tensor, length_power: float = 0.0) -> Tensor:
    """The score of given captions, (B, S), as every search computes it."""
    said = captions != PAD  # (B, S, T)
    outputs = teacher_force(model, streams, captions).outputs
    chosen = model.log_probabilities(outputs).gather(-1, captions.unsqueeze(-1)).squeeze(-1)
    return chosen.masked_fill(~said, 0).sum(-1) / said.sum(-1).clamp(min=1) ** length_power


def greedy(model: StepModel, streams: Streams, max_words: int) -> Hypotheses:
    """One caption a video, of one word at least: the most likely word at each step."""

    def choose(log_probs: Tensor, columns: Tensor | None) -> Tensor:
        return (without_end(log_probs) if columns is None else log_probs).argmax(-1)

    return _walk(model, streams, 1, max_words, choose)


def sample(
    model: StepModel,
    streams: Streams,
    num_captions: int,
    max_words: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    nucleus: float | None = None,
    generator: torch.Generator | None = None,
) -> Hypotheses:
    """S captions a video, drawn word by word; scores are under the unmodified distribution."""

    def choose(log_probs: Tensor, columns: Tensor | None) -> Tensor:
        narrowed = _narrow(log_probs / temperature, top_k, nucleus)
        flat = narrowed.softmax(-1).flatten(0, 1)
        return torch.multinomial(flat, 1, generator=generator).view(log_probs.shape[:2])

    return _walk(model, streams, num_captions, max_words, choose)


def _narrow(log_probs: Tensor, top_k: int | None, nucleus: float | None) -> Tensor:
    """Keeps the k most likely words, or the fewest that hold `nucleus` of the probability."""
    if top_k is not None and top_k < log_probs.shape[-1]:
        least = log_probs.topk(top_k, -1).values[..., -1:]
        log_probs = log_probs.masked_fill(log_probs < least, float("-inf"))
    if nucleus is not None:
        ordered, order = log_probs.softmax(-1).sort(-1, descending=True)
        beyond = ordered.cumsum(-1) - ordered > nucleus  # the most likely word is always kept
        log_probs = log_probs.masked_fill(beyond.gather(-1, order.argsort(-1)), float("-inf"))
    return log_probs


def without_end(log_probs: Tensor) -> Tensor:
    """Forbids EOS as the first word: the empty caption is often more likely than any one long caption."""
    return log_probs.index_fill(-1, torch.tensor([EOS], device=log_probs.device), float("-inf"))


def _walk(
    model: StepModel,
    streams: Streams,
    num_captions: int,
    max_words: int,
    choose: Callable[[Tensor, Tensor | None], Tensor],
) -> Hypotheses:
    """Chooses one word after the other until every caption has ended.

    `choose(log_probs, columns)` picks words for the captions that are unfinished in some video; at the first step these
    are all, and `columns` is None.
    """
    memory, state = model.encode(streams)
    state = expand_state(state, num_captions)
    batch = next(iter(streams.values())).mask.shape[0]
    device = next(iter(streams.values())).mask.device
    words = torch.full((batch, num_captions), BOS, device=device)
    ended = torch.zeros_like(words, dtype=torch.bool)
    columns = torch.arange(num_captions, device=device)
    scores = torch.zeros(words.shape, device=device)
    captions = torch.full((batch, num_captions, max_words), PAD, device=device)
    for time in range(max_words):
        step = model.step(words, memory, state)
        log_probs = model.log_probabilities(step.outputs)
        words = choose(log_probs, columns if time else None)
        scores[:, columns] += log_probs.gather(-1, words.unsqueeze(-1)).squeeze(-1).masked_fill(ended, 0)
        words = words.masked_fill(ended, PAD)
        captions[:, columns, time] = words
        state, ended = step.state, ended | (words == EOS)
        going = (~ended.all(0)).nonzero().squeeze(1)
        if not len(going):
            break
        if len(going) < len(columns):
            columns, words, ended = columns[going], words[:, going], ended[:, going]
            state = {name: tensor[:, going] for name, tensor in state.items()}
    return Hypotheses(captions[..., : time + 1], scores)


def beam(
    model: StepModel, streams: Streams, width: int, max_words: int, *, num_best: int = 1, length_power: float = 0.0
) -> Hypotheses:
    """The `num_best` best captions that a beam of `width` finds.

    Captions that ended leave the beam for a pool of the best finished ones; the search stops for good when no
    caption still in a beam could enter the pool's first `num_best`, even if all its further words were certain.
    Videos that are done leave the batch.
    """
    memory, state = model.encode(streams)
    batch = next(iter(streams.values())).mask.shape[0]
    device = next(iter(streams.values())).mask.device
    pool_size = max(width, num_best)
    # finished captions of all videos of the batch
    best_scores = torch.full((batch, pool_size), float("-inf"), device=device)
    best_captions = torch.full((batch, pool_size, max_words), PAD, device=device)
    # the beams of the videos that are not done: `videos` are their rows in the tensors above
    videos = torch.arange(batch, device=device)
    words = torch.full((batch, 1), BOS, device=device)
    scores = torch.zeros((batch, 1), device=device)
    captions = torch.full((batch, 1, max_words), PAD, device=device)
    for time in range(max_words):
        step = model.step(words, memory, state)
        log_probs = model.log_probabilities(step.outputs)
        reached = scores.unsqueeze(-1) + (log_probs if time else without_end(log_probs))  # (B, S, V)
        # at most `width` of the 2 * width best candidates can end, so `width` always stay in the beam
        candidates, index = reached.flatten(1).topk(min(2 * width, reached[0].numel()), -1)
        parent, words = index // reached.shape[-1], index % reached.shape[-1]
        longer = torch.gather(captions, 1, parent.unsqueeze(-1).expand(-1, -1, max_words)).clone()
        longer[:, :, time] = words
        ends = words == EOS
        finished = (candidates / (time + 1) ** length_power).masked_fill(~ends, float("-inf"))
        pool_scores = torch.cat([best_scores[videos], finished], 1)
        pool_captions = torch.cat([best_captions[videos], longer], 1)
        pool_scores, kept = pool_scores.topk(pool_size, 1)
        best_scores[videos] = pool_scores
        best_captions[videos] = torch.gather(pool_captions, 1, kept.unsqueeze(-1).expand(-1, -1, max_words))

        scores, kept = candidates.masked_fill(ends, float("-inf")).topk(min(width, candidates.shape[1]), 1)
        words, parent = words.gather(1, kept), parent.gather(1, kept)
        captions = torch.gather(longer, 1, kept.unsqueeze(-1).expand(-1, -1, max_words))
        could_reach = scores / (max_words if length_power > 0 else 1) ** length_power
        hopeful = could_reach > pool_scores[:, num_best - 1 : num_best]  # the first of a beam, which is sorted
        going = hopeful[:, 0]
        if time + 1 == max_words or not bool(going.any()):
            break
        most = int(hopeful.sum(1).max())
        words, scores, captions = words[:, :most], scores[:, :most], captions[:, :most]
        state = reorder(step.state, parent[:, :most])
        if not bool(going.all()):
            rows = going.nonzero().squeeze(1)
            videos, words, scores, captions = videos[rows], words[rows], scores[rows], captions[rows]
            memory = {name: tensor[rows] for name, tensor in memory.items()}
            state = {name: tensor[rows] for name, tensor in state.items()}
    # where fewer than num_best captions ended within max_words, unfinished ones follow those that did
    pool_scores = torch.cat([best_scores[videos], scores / max_words**length_power], 1)
    pool_captions = torch.cat([best_captions[videos], captions], 1)
    unfinished = torch.arange(pool_scores.shape[1], device=device) >= pool_size
    kept = (unfinished + 2 * pool_scores.isinf()).argsort(dim=1, stable=True)[:, :pool_size]
    best_scores[videos] = pool_scores.gather(1, kept)
    best_captions[videos] = torch.gather(pool_captions, 1, kept.unsqueeze(-1).expand(-1, -1, max_words))
    return Hypotheses(best_captions[:, :num_best], best_scores[:, :num_best])


def arithmetic_sample(model: StepModel, streams: Streams, num_captions: int, max_words: int) -> Hypotheses:
    """S captions a video by arithmetic sampling (Vilnis et al. 2023), without random numbers.

    All captions lie side by side on the unit interval, each as wide as its probability, in the order of their token
    numbers. The captions at S evenly spaced points are taken. They represent the distribution better than S random
    draws, and do not depend on the other videos of the batch.

    Captions that begin with the same words are one row for the model until they part; they lie side by side.
    """
    memory, state = model.encode(streams)  # (B, 1, ...), later (B, R, ...) with one row for each beginning
    mask = next(iter(streams.values())).mask
    batch, device = len(mask), mask.device
    points = (torch.arange(num_captions, dtype=torch.float64, device=device) + 0.5) / num_captions
    points = points.repeat(batch, 1)  # (B, S)
    words = torch.full((batch, 1), BOS, device=device)
    row = torch.zeros((batch, num_captions), dtype=torch.long, device=device)  # of each caption
    ended = torch.zeros_like(row, dtype=torch.bool)
    scores = torch.zeros(row.shape, device=device)
    captions = torch.full((batch, num_captions, max_words), PAD, device=device)
    for time in range(max_words):
        step = model.step(words, memory, state)
        log_probs = model.log_probabilities(step.outputs)
        chosen, points = _at_points(log_probs if time else without_end(log_probs), row, points)
        said = log_probs.flatten(1).gather(1, row * log_probs.shape[-1] + chosen)
        scores += said.masked_fill(ended, 0)
        captions[:, :, time] = chosen.masked_fill(ended, PAD)
        ended |= chosen == EOS
        if bool(ended.all()):
            break
        beginnings = pad((row * log_probs.shape[-1] + chosen).masked_fill(ended, -1), (1, 0), value=-1)
        first = (beginnings[:, 1:] != beginnings[:, :-1]) & ~ended  # of the captions with this beginning
        parent, row = row, (first.cumsum(1) - 1).clamp(min=0)
        video, caption = first.nonzero(as_tuple=True)
        index = torch.zeros((batch, int(row.max()) + 1), dtype=torch.long, device=device)
        words = torch.full_like(index, BOS)
        index[video, row[video, caption]] = parent[video, caption]
        words[video, row[video, caption]] = chosen[video, caption]
        state = reorder(step.state, index)
    return Hypotheses(captions[..., : time + 1], scores)


def _at_points(log_probs: Tensor, row: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """The word of each caption (B, S) in whose interval its point lies, and where in that interval.

    log_probs (B, R, V) of the beginnings, of which each caption has one: row (B, S).
    """
    num_words = log_probs.shape[-1]
    ends = log_probs.exp().cumsum(-1, dtype=torch.float64)
    total = ends[..., -1:].clone()
    ends /= total
    # one line for all beginnings of all videos: each lies 2 above the one before
    above = 2 * torch.arange(total.numel(), dtype=torch.float64, device=ends.device).view(total.shape)
    sought = points + above.squeeze(-1).gather(1, row)
    words = torch.searchsorted((ends + above).flatten(), sought.flatten(), right=True).view(row.shape) % num_words
    index = row * num_words + words  # never a word of probability 0
    width = log_probs.flatten(1).gather(1, index).exp().double() / total.squeeze(-1).gather(1, row)
    start = ends.flatten(1).gather(1, index) - width
    return words, ((points - start) / width).clamp(0, 1 - 1e-9)


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
    """The `num_best` (or `beams`) candidates with the least Bayes risk (Kumar and Byrne 2004) by n-gram similarity.

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
    grams = pad(captions, (0, order - 1), value=PAD).unfold(-1, order, 1)
    digits = len(weights) ** torch.arange(order, device=captions.device)
    heavy = weights[grams].amax(-1).square()
    return (grams * digits).sum(-1), heavy.masked_fill((grams == PAD).any(-1), 0)


def _norm(grams: Tensor, weights: Tensor) -> Tensor:
    """The squared norm of a vector of weighted counts, (B, S): a squared count is the number of equal pairs."""
    same = grams.unsqueeze(-1) == grams.unsqueeze(-2)
    return (same.float() @ weights.unsqueeze(-1)).squeeze(-1).sum(-1)
