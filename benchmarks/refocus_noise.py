"""What L_R+ (Eq. 21) does to the key frames when its reward is pure noise.

    python benchmarks/refocus_noise.py runs/shapes_kbigru data/search/truth.jsonl    # half a minute on one core

The encoder of a run of `refocus` is frozen; refocusing modules with new weights, one a seed, learn from Gaussian noise
in place of R_e - R_e-1, as long as the joint phase of shapes/refocus. Printed: how often the key frame
of a test video lies in its event before and after, and the mean alpha of the key frame.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from watchword.data.benchmarks import read_clips, store_path
from watchword.data.dataset import Features
from watchword.features.store import Store
from watchword.layers.attention import ProductAttention, time_step_means
from watchword.losses.refocus import key_frame_loss
from watchword.models.refocus import Refocus
from watchword.research.shapes import read_events
from watchword.training import Run

SEEDS, EPOCHS, VIDEOS, CAPTIONS, RATE, BETA = 8, 7, 8, 6, 2e-3, 0.03


def relevance(module: ProductAttention, video: Tensor, frames: Tensor) -> Tensor:
    return module.energies(video.unsqueeze(1), module.keys(frames)).squeeze(1).log_softmax(-1)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("run", type=Path)
    arguments.add_argument("truth", type=Path)
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    run, truth = Run(asked.run), read_events(asked.truth)
    model, data = run.model(), run.recipe.data
    assert isinstance(model, Refocus)
    features = Features(Store(store_path(data)), data)
    parts = {}
    for split in ("train", "test"):
        videos = [clip.video for clip in read_clips(data).clips if clip.split == split]
        with torch.no_grad():
            frames, real = time_step_means(features.read(videos)[model.temporal])
            lengths = real.sum(1)
            parts[split] = videos, frames, model.encoder.first(frames, lengths, lengths // 2, None)[1]
    (_, frames, seen), (videos, test_frames, test_seen) = parts["train"], parts["test"]
    events = [truth[video] for video in videos]

    def inside(log_alpha: Tensor) -> float:
        return float(np.mean([a <= key < b for key, (a, b) in zip(log_alpha.argmax(1).tolist(), events, strict=True)]))

    for drawn, worse in ((False, "lowers"), (False, "as_printed"), (False, "eq_19"), (True, "lowers")):
        rows = []
        for seed in range(SEEDS):
            torch.manual_seed(seed)
            module = ProductAttention(seen.shape[1], frames.shape[2], 64)
            optimizer = torch.optim.Adam(module.parameters(), lr=RATE)
            before = inside(relevance(module, test_seen, test_frames))
            for _ in range(EPOCHS):
                for batch in torch.randperm(len(frames)).split(VIDEOS):
                    log_alpha = relevance(module, seen[batch], frames[batch])
                    key = torch.multinomial(log_alpha.detach().exp(), 1).squeeze(1) if drawn else log_alpha.argmax(1)
                    noise = torch.randn(len(batch), CAPTIONS)
                    optimizer.zero_grad()
                    (BETA * key_frame_loss(noise, log_alpha, key, worse).sum()).backward()
                    optimizer.step()
            with torch.no_grad():
                after = relevance(module, test_seen, test_frames)
            rows.append((before, inside(after), float(after.exp().amax(1).mean())))
        means = np.mean(rows, 0)
        name = "drawn" if drawn else "likeliest" if worse == "lowers" else f"likeliest, {worse}"
        print(
            f"{name}: in the event {means[0]:.3f} before, {means[1]:.3f} after, alpha {means[2]:.3f}; by seed: "
            f"{' '.join(f'{row[1]:.2f}' for row in rows)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
