"""What rewards cost inside a training step, on a trained run, and beside pycocoevalcap.

    python benchmarks/rewards.py runs/msvd_soft_attention [--java]

One thread, CPU seconds. A step draws 5 sentences for each of 32 training videos, scores them, and learns; the share of
the step that the reward takes is given for each mix of metrics. `--java` scores the same sentences with
pycocoevalcap, one sentence a video and call, as code that has it in its loop does.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch

from watchword.losses.reinforcement import RewardSettings, SelfCritical
from watchword.training.loop import Trainer
from watchword.training.run import Run

MIXES = {
    "CIDEr": {"CIDEr": 1.0},
    "CIDEr + ROUGE-L (VRE)": {"CIDEr": 1.0, "ROUGE_L": 1.0},
    "METEOR + BLEU-4 (STaTS)": {"METEOR": 1.0, "Bleu_4": 1.0},
}
STEPS = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--java", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    run = Run(options.run)
    trainer = Trainer(run.recipe, run)
    model = run.model().train()
    batches = [trainer.data.batch(slot) for slot in trainer.data.plan_videos((0,))[: STEPS + 1]]
    sentences: dict[str, list[str]] = {}
    for name, rewards in MIXES.items():
        loss = SelfCritical(RewardSettings(rewards=rewards), trainer.material)
        spent = [0.0, 0]
        really = loss.index.reward

        def timed(videos: Any, spoken: Any, weights: Any, really: Any = really, spent: list[float] = spent) -> Any:
            start = time.process_time()
            values = really(videos, spoken, weights)
            spent[0] += time.process_time() - start
            spent[1] += sum(len(own) for own in spoken)
            sentences.update(zip(videos, spoken, strict=True))
            return values

        loss.index.reward = timed  # type: ignore[method-assign]
        start = 0.0
        for number, batch in enumerate(batches):
            if number == 1:  # the first one warms up
                start, spent[:] = time.process_time(), [0.0, 0]
            model.zero_grad()
            loss(model, batch, 0.0).total.backward()
        whole = time.process_time() - start
        print(
            f"{name:24} {1000 * whole / STEPS:6.0f} ms a step, reward {spent[0] / whole:6.2%} of it, "
            f"{spent[1] / spent[0]:8.0f} sentences per CPU second"
        )
    if options.java:
        with_java(sentences, trainer)


def with_java(sentences: dict[str, list[str]], trainer: Trainer) -> None:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    chosen = {video: own[0] for video, own in list(sentences.items())[:32]}
    for name, scorer in (("CIDEr", Cider()), ("ROUGE-L", Rouge()), ("BLEU-4", Bleu(4)), ("METEOR", Meteor())):
        start = time.process_time() + sum(os.times()[2:4])
        tokenizer = PTBTokenizer()
        references = tokenizer.tokenize(
            {video: [{"caption": text} for text in trainer.material.references[video]] for video in chosen}
        )
        spoken = tokenizer.tokenize({video: [{"caption": text}] for video, text in chosen.items()})
        scorer.compute_score(references, spoken)
        if name == "METEOR":
            scorer.meteor_p.stdin.close()
            scorer.meteor_p.wait()
            scorer.meteor_p.kill()
        spent = time.process_time() + sum(os.times()[2:4]) - start
        print(f"pycocoevalcap {name:8} {len(chosen) / spent:8.1f} sentences per CPU second (32 at once, tokenizer too)")


if __name__ == "__main__":
    main()
