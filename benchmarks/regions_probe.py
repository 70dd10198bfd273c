"""What do the streams of drawn videos say of the subject, and can attention that is told nothing else find it?

    python benchmarks/regions_probe.py    # half a minute of one core

1. Linear probes of the subject's looks and of the scene, from each of several views of a video.
2. A perceptron that is told which region is the subject's: how often it finds it in one frame of the event.
3. Attention over all regions of a video that is told only the subject's colour and shape, labels of the video: how much
   of it falls on the subject, within frames of the event. Attention in a captioner has to do that, and words besides.

600 videos, three distractors, seed 0; figures are of the 120 test videos. docs/reference/shapes.md has what came out.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from watchword.research.shapes import DrawnVideo, ShapesConfig, draw_videos, streams_of
from watchword.types import FloatArray

STREAMS = ("appearance", "motion", "scene", "movement", "regions", "moving_regions")
SIGNED = 61  # of `moving_regions`: the regions and their signed changes; amounts follow
Seen = dict[str, FloatArray]  # stream -> (F, N, D)


def middle(video: DrawnVideo) -> int:
    """A frame in the middle of the event that shows the subject."""
    start, end = video.truth.event
    shown = [frame for frame in range(start, end) if video.truth.visible[frame, video.truth.subject]]
    return shown[len(shown) // 2]


def over_time(*names: str) -> Callable[[DrawnVideo, Seen], FloatArray]:
    """Means over the video, of signed values and of sizes."""
    return lambda video, seen: np.concatenate(
        [part for name in names for part in (seen[name].mean((0, 1)), np.abs(seen[name]).mean((0, 1)))]
    )


def background(video: DrawnVideo, seen: Seen) -> FloatArray:
    empty = [slot for slot, thing in enumerate(video.truth.things) if thing is None]
    return seen["regions"][middle(video), empty].mean(0)


VIEWS: dict[str, Callable[[DrawnVideo, Seen], FloatArray]] = {
    "the subject's region": lambda video, seen: seen["regions"][middle(video), video.truth.subject],
    "appearance and motion": over_time("appearance", "motion"),
    "scene and movement": over_time("scene", "movement"),
    "all regions": over_time("regions"),
    "background boxes": background,
}
QUESTIONS: dict[str, Callable[[DrawnVideo], str]] = {
    "object": lambda video: video.truth.facts.subject.object,
    "colour": lambda video: video.truth.facts.subject.colour,
    "texture": lambda video: video.truth.facts.subject.texture,
    "scene": lambda video: video.truth.facts.scene,
}


def numbered(answers: list[str]) -> Tensor:
    return torch.tensor([sorted(set(answers)).index(answer) for answer in answers])


def linear_probe(values: Tensor, answers: Tensor, train: Tensor) -> float:
    values = (values - values[train].mean(0)) / (values[train].std(0) + 1e-3)
    probe = nn.Linear(values.shape[1], int(answers.max()) + 1)
    optimizer = torch.optim.Adam(probe.parameters(), 1e-2, weight_decay=1e-3)
    for _ in range(300):
        optimizer.zero_grad()
        cross_entropy(probe(values[train]), answers[train]).backward()
        optimizer.step()
    return float((probe(values[~train]).argmax(1) == answers[~train]).float().mean())


def scorer(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, 1))


def told(values: Tensor, there: Tensor, subjects: Tensor, train: Tensor) -> float:
    """values (V, N, D) of one frame a video: how often the subject has the largest score."""
    score = scorer(values.shape[-1])
    optimizer = torch.optim.Adam(score.parameters(), 5e-3, weight_decay=1e-3)
    for _ in range(200):
        optimizer.zero_grad()
        energies = score(values).squeeze(-1).masked_fill(~there, -1e9)
        cross_entropy(energies[train], subjects[train]).backward()
        optimizer.step()
    return float((energies.argmax(1) == subjects)[~train].float().mean())


def untold(values: Tensor, there: Tensor, labels: tuple[Tensor, Tensor], train: Tensor, steps: int) -> Tensor:
    """Attention within each frame, (V, F, N), learned from two labels of the video alone; values (V, F, N, D)."""
    width, (first, second) = values.shape[-1], labels
    num_first = int(first.max()) + 1
    score, answer = scorer(width), nn.Linear(width, num_first + int(second.max()) + 1)
    optimizer = torch.optim.Adam([*score.parameters(), *answer.parameters()], 4e-3)
    rows = train.nonzero().squeeze(1)
    for _ in range(steps):
        some = rows[torch.randint(len(rows), (16,))]
        weights = score(values[some]).squeeze(-1).masked_fill(~there[some], -1e9).softmax(-1)
        given = answer((weights.unsqueeze(-1) * values[some]).sum(2).mean(1))
        optimizer.zero_grad()
        loss = cross_entropy(given[:, :num_first], first[some]) + cross_entropy(given[:, num_first:], second[some])
        loss.backward()
        optimizer.step()
    return score(values).squeeze(-1).masked_fill(~there, -1e9).softmax(-1).detach()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    videos = list(draw_videos(ShapesConfig(count=600, distractors=3)))
    seen = [{name: one.values for name, one in streams_of(video, STREAMS).items()} for video in videos]
    train = torch.tensor([video.split != "test" for video in videos])
    answers = {name: numbered([ask(video) for video in videos]) for name, ask in QUESTIONS.items()}
    commonest = {name: float(own[~train].bincount().max() / (~train).sum()) for name, own in answers.items()}
    print("commonest", {name: round(share, 2) for name, share in commonest.items()})
    for name, view in VIEWS.items():
        values = torch.tensor(np.stack([view(video, own) for video, own in zip(videos, seen, strict=True)]))
        print(name, {ask: round(linear_probe(values, own, train), 2) for ask, own in answers.items()}, flush=True)

    subjects = torch.tensor([video.truth.subject for video in videos])
    visible = torch.tensor(np.stack([video.truth.visible for video in videos]))  # (V, F, N)
    frames, rows = torch.tensor([middle(video) for video in videos]), torch.arange(len(videos))
    moving = torch.tensor(np.stack([own["moving_regions"] for own in seen]))  # (V, F, N, D)
    plain = torch.tensor(np.stack([own["regions"] for own in seen]))
    for name, values in (("regions", plain), ("moving_regions", moving)):
        found = told(values[rows, frames], visible[rows, frames], subjects, train)
        print(f"told who, one frame of {name}: {found:.1%}", flush=True)

    happening = torch.zeros(visible.shape[:2], dtype=torch.bool)
    for row, video in enumerate(videos):
        happening[row, slice(*video.truth.event)] = True
    happening &= visible[rows, :, subjects] & ~train.unsqueeze(1)
    labels = answers["colour"], answers["object"]
    views = {"regions": plain, "moving_regions without amounts": moving[..., :SIGNED], "moving_regions": moving}
    for name, values in views.items():
        weights = untold(values, visible, labels, train, steps=600)
        share = float(weights[rows, :, subjects][happening].mean())
        print(f"told colour and shape, {name}: {share:.1%} on the subject in frames of its event", flush=True)


if __name__ == "__main__":
    main()
