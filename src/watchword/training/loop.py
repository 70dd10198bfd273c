"""The loop: phases, epochs, batches; validation, early stopping, best weights; resuming bit for bit.

What a run will do is a pure function of its recipe: the order of the data comes from (seed, phase, epoch), the learning
rate from the position in the phase. So resuming needs the weights, the optimiser, the random state and the position.
"""

import json
import logging
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs
from numpy.typing import NDArray
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from watchword.config import Phase, Recipe, check_paths
from watchword.data.benchmarks import read_clips, store_path
from watchword.data.dataset import CaptionData, build_vocabulary, keep_frames
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.losses import Loss, Material, Objective, build_loss
from watchword.metrics import ReferenceIndex
from watchword.models import Model, build_model
from watchword.precision import choose_precision
from watchword.tensors import Batch
from watchword.text.vocabulary import Vocabulary, read_word_vectors
from watchword.training.allocator import keep_freed_memory
from watchword.training.curves import draw_curves
from watchword.training.evaluation import Search, caption_videos, mean_word_loss, references_of, score_captions
from watchword.training.run import Run, beginning_with, not_of_this_run, pack_optimizer, unpack_optimizer

log = logging.getLogger(__name__)

VALIDATION_METRICS = ("BLEU", "ROUGE_L", "CIDEr")  # METEOR costs more than it tells during training
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
}


@dataclass
class Position:
    """Where training is, and what it has seen so far: all that is not a tensor."""

    phase: int = 0
    epoch: int = 0
    batch: int = 0  # batches of the epoch that are done
    step: int = 0  # batches of the run that are done
    loss_total: float = 0.0  # of the epoch so far
    loss_weight: float = 0.0
    shown: dict[str, float] = field(default_factory=dict)  # sums over the epoch's batches of what a loss shows
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0  # validations without a better score
    log_bytes: int = 0  # length of log.jsonl at this position


@dataclass(frozen=True)
class TrainingProgress:
    """What a progress bar shows."""

    phase: int
    epoch: int
    epochs: int
    batch: int
    batches: int
    loss: float
    scores: dict[str, float] = field(default_factory=dict)  # at the end of an epoch


Report = Callable[[TrainingProgress], None]


def train(recipe: Recipe, folder: Path, report: Report = lambda progress: None) -> Run:
    """Trains what the recipe says into a new run folder."""
    run = Run(folder)
    run.check_new()
    check_paths(recipe)
    trainer = Trainer(recipe, run)
    trainer.accelerator.wait_for_everyone()  # all have looked whether the folder is free
    with trainer.lock():
        if trainer.accelerator.is_main_process:
            run.check_new()  # another training may have begun meanwhile
            run.begin(recipe, trainer.vocabulary, trainer.seen)
        trainer.run_phases(report)
    return run


def resume(folder: Path, report: Report = lambda progress: None) -> Run:
    """Continues an interrupted run by its own recipe; the weights are the same as without the interruption."""
    run = Run(folder)
    seen = run.training_data if (folder / "data.json").exists() else {}
    trainer = Trainer(run.recipe, run, precision=seen.get("precision"))
    with trainer.lock():
        last = run.last()
        if last is not None:
            trainer.restore(*last)
        elif trainer.accelerator.is_main_process:  # cut off before anything was kept: from the beginning
            run.begin(trainer.recipe, trainer.vocabulary, trainer.seen)
            (folder / "log.jsonl").unlink(missing_ok=True)
        trainer.run_phases(report)
    return run


class Learner(nn.Module):
    """A model and its loss as one module, so that several processes can share its gradients."""

    def __init__(self, model: Model, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, sampling_rate: float) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        loss: Loss = self.objective(self.model, batch, sampling_rate)
        return loss.total, loss.weight, {name: value.detach() for name, value in loss.shown.items()}


class Trainer:
    """One run in memory."""

    def __init__(self, recipe: Recipe, run: Run, precision: str | None = None) -> None:
        """`precision`: what a resumed run began with."""
        clips = read_clips(recipe.data)
        parts = {split: clips.split(split) for split in ("train", recipe.selection.split)}
        self.recipe, self.run = recipe, run
        start = Run(recipe.init_from) if recipe.init_from else None
        if start:
            self.vocabulary = start.vocabulary
        elif recipe.vocabulary:
            self.vocabulary = Vocabulary.load(recipe.vocabulary)
        else:
            self.vocabulary = build_vocabulary(parts["train"], recipe.data.min_count)
        store = Store(store_path(recipe.data))
        self.data = CaptionData(parts["train"], store, self.vocabulary, recipe.data)
        self.validation = CaptionData(parts[recipe.selection.split], store, self.vocabulary, recipe.data)
        self.references = ReferenceIndex(references_of(parts[recipe.selection.split]))
        self.material = Material(
            self.vocabulary, references_of(parts["train"]), self.data.num_words, recipe.data.max_words
        )
        self.seen = {
            "splits": dict(clips.checksums),
            "streams": self.data.features.described(),
            "used": clips.used(),
            "precision": choose_precision(precision or recipe.precision),
            "keys": self.data.features.keys(),
        }
        log.info("videos: %s", clips)
        if recipe.data.optional_streams:
            log.info("train videos have: %s", self.data.features.coverage(self.data.videos))
        log.info("precision: %s", self.seen["precision"])
        self.accelerator = Accelerator(
            mixed_precision="no",  # the autocast is ours: Accelerate's is one for all runs of a process
            kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
        )
        torch.manual_seed(recipe.seed)
        self.model = build_model(recipe.model, self.data.features.widths, len(self.vocabulary))
        if start is None:
            self._set_word_vectors()
        else:
            load_matching(self.model, start.model(), start.name)
        torch.manual_seed(recipe.seed + 1 + self.accelerator.process_index)  # processes draw different dropout
        self.objectives = [build_loss(phase.loss, self.material) for phase in recipe.phases]  # mistakes show now
        if recipe.data.frame_keep_rate < 1 and any(objective.whole_videos for objective in self.objectives):
            raise WatchwordError(
                "key frames are chosen among all frames of a video: set data.frame_keep_rate=1 (model.feature_dropout "
                "is another regulariser)"
            )
        self.position = Position()
        self.mean: AveragedModel | None = None  # of the weights, in a phase that averages them
        self.resumed: dict[str, Tensor] = {}
        self.saved_at = time.monotonic()

    def _set_word_vectors(self) -> None:
        if self.recipe.word_vectors:
            begin_with_vectors(self.model, *read_word_vectors(self.recipe.word_vectors, self.vocabulary))

    def lock(self) -> AbstractContextManager[object]:
        """Of the run folder; held by the main process for all of them."""
        return self.run.lock() if self.accelerator.is_main_process else nullcontext()

    # --- the loop --------------------------------------------------------------------------------------------------

    def run_phases(self, report: Report) -> None:
        from torch.utils.tensorboard import SummaryWriter

        board = None
        if self.accelerator.is_main_process:
            log.info("curves: tensorboard --logdir %s", self.run.folder)
            board = SummaryWriter(str(self.run.folder), purge_step=self.position.step)
        self.model.to(self.accelerator.device)
        keep_freed_memory()
        while self.position.phase < len(self.recipe.phases):
            if self.recipe.phases[self.position.phase].epochs:
                self._run_phase(self.recipe.phases[self.position.phase], report, board)
            self.position.phase, self.position.epoch, self.position.waited = self.position.phase + 1, 0, 0
        if board is not None:
            board.close()
            draw_curves(self.run.folder)

    def _run_phase(self, phase: Phase, report: Report, board: Any) -> None:
        objective = self.objectives[self.position.phase].to(self.accelerator.device)
        if not self.resumed:  # before the processes agree on the weights: what is drawn anew is drawn once
            if phase.begin == "best" and self.position.phase:
                self.model.load_state_dict(self.run.model().state_dict())
            if phase.forget_best or objective.starts_anew:
                self.position.best = None
            objective.begin(self.model)
            if objective.starts_anew:
                self._set_word_vectors()
        learner = self.accelerator.prepare(Learner(self.model, objective))
        optimizer = OPTIMIZERS[phase.optimizer](
            objective.parameter_groups(self.model), lr=phase.learning_rate, weight_decay=phase.weight_decay
        )  # type: ignore[call-arg]
        self.mean = running_mean(self.model, phase.ema_decay) if phase.ema_decay else None
        if self.resumed:
            with not_of_this_run(self.run):
                unpack_optimizer(optimizer, self.resumed)
                objective.load_state_dict(beginning_with("objective.", self.resumed))
                if self.mean is not None:
                    self.mean.load_state_dict(beginning_with("mean.", self.resumed))
            self.resumed = {}
        elif phase.begin == "best" and self.position.phase:
            self._save(objective, optimizer)  # what was best before this phase may be replaced by its first epoch
        while self.position.epoch < phase.epochs and not self._out_of_patience(phase):
            self._run_epoch(phase, learner, objective, optimizer, report)
            row = self._close_epoch(phase, optimizer)
            if board is not None:
                for name, value in row.items():
                    if name not in ("phase", "epoch", "step"):
                        board.add_scalar(name, value, self.position.step)
                board.flush()
            scores = {name: value for name, value in row.items() if name not in ("phase", "epoch", "step")}
            report(TrainingProgress(self.position.phase, self.position.epoch, phase.epochs, 1, 1, row["loss"], scores))
            self._save(objective, optimizer)

    def _run_epoch(
        self, phase: Phase, learner: nn.Module, objective: Objective, optimizer: torch.optim.Optimizer, report: Report
    ) -> None:
        """One pass over all training captions (or videos), from wherever in it the run is."""
        position, accelerator = self.position, self.accelerator
        plan = self.data.plan_videos if objective.once_a_video else self.data.plan
        slots = plan((self.recipe.seed, position.phase, position.epoch))
        # A batch holds captions of like length: were the mean of each batch taken, a word of a short caption would
        # weigh more than one of a long caption, and what is said would come out short. So every batch is divided by
        # what the mean batch weighs.
        mean_weight = objective.epoch_weight(self.material) / len(slots)
        sampling_rate = phase.sampling.at(position.epoch) if phase.sampling else 0.0
        learner.train()
        while position.batch < len(slots):
            rate = phase.schedule.rate(phase.learning_rate, position.epoch + position.batch / len(slots), phase.epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            share = slots[position.batch].share(accelerator.process_index, accelerator.num_processes)
            batch = self.data.batch(share).to(accelerator.device)
            if self.recipe.data.frame_keep_rate < 1:
                batch = replace(batch, streams=keep_frames(batch.streams, self.recipe.data.frame_keep_rate))
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=self.seen["precision"] == "bfloat16"):
                total, weight, shown = learner(batch, sampling_rate)
            together = accelerator.reduce(torch.stack([total.detach(), weight.to(total.dtype)]), "sum")
            all_total, all_weight = together.tolist()
            if not math.isfinite(all_total):
                raise WatchwordError(
                    f"the loss became {all_total} in epoch {position.epoch + 1}, batch {position.batch + 1}: try a "
                    f"smaller phases.{position.phase}.learning_rate (now {rate:g}); the best weights so far are kept"
                )
            optimizer.zero_grad()
            accelerator.backward(total * accelerator.num_processes / mean_weight)  # processes average their gradients
            accelerator.clip_grad_norm_(self.model.parameters(), phase.clip)
            optimizer.step()
            if self.mean is not None:
                self.mean.update_parameters(self.model)
            position.batch, position.step = position.batch + 1, position.step + 1
            position.loss_total += all_total
            position.loss_weight += all_weight
            for name, value in shown.items():
                position.shown[name] = position.shown.get(name, 0.0) + float(accelerator.reduce(value, "mean"))
            mean = position.loss_total / position.loss_weight
            report(TrainingProgress(position.phase, position.epoch, phase.epochs, position.batch, len(slots), mean))
            if time.monotonic() - self.saved_at > 60 * self.recipe.save_minutes:
                self._save(objective, optimizer)

    def _close_epoch(self, phase: Phase, optimizer: torch.optim.Optimizer) -> dict[str, float]:
        """Validates, keeps the best weights, writes the log."""
        position = self.position
        row: dict[str, float] = {
            "phase": position.phase,
            "epoch": position.epoch + 1,
            "step": position.step,
            "loss": position.loss_total / position.loss_weight,
            "learning_rate": optimizer.param_groups[0]["lr"],
        }
        row |= {name: value / position.batch for name, value in position.shown.items()}
        position.epoch, position.batch, position.shown = position.epoch + 1, 0, {}
        position.loss_total = position.loss_weight = 0.0
        if position.epoch % self.recipe.selection.every == 0 or position.epoch == phase.epochs:
            row |= self._validate()
            by = self.recipe.selection.by
            value = -row[by] if by == "val_loss" else row[by]
            if position.best is None or value > position.best:
                position.best, position.best_epoch, position.waited = value, position.epoch, 0
                if self.accelerator.is_main_process:
                    self.run.keep_best(self.judged, self.recipe, self.vocabulary)
            else:
                position.waited += 1
        if self.accelerator.is_main_process:
            with (self.run.folder / "log.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
                position.log_bytes = file.tell()
        return row

    @property
    def judged(self) -> Model:
        """What is validated and kept: the weights, or their running mean."""
        return self.model if self.mean is None else self.mean.module  # type: ignore[return-value]

    def _validate(self) -> dict[str, float]:
        """Every process validates for itself: all come to the same scores and agree on when to stop."""
        random_state = torch.get_rng_state()
        model = self.judged.eval()
        selection = self.recipe.selection
        mbr_samples = 0 if selection.by == "val_loss" else selection.mbr_samples  # then captions select nothing
        search = Search(selection.beam, selection.length_power, self.recipe.data.max_words, mbr_samples)
        captions = caption_videos(
            model,
            self.validation.features,
            self.validation.videos,
            self.vocabulary,
            search,
            device=self.accelerator.device,
        )
        scores = score_captions(captions, self.references, VALIDATION_METRICS)
        loss = mean_word_loss(model, self.validation, self.accelerator.device)
        model.train()
        torch.set_rng_state(random_state)  # whether and how a run is validated changes nothing in its weights
        return {"val_loss": loss, **scores.corpus}

    def _out_of_patience(self, phase: Phase) -> bool:
        return phase.patience is not None and self.position.waited >= phase.patience

    # --- keeping and resuming --------------------------------------------------------------------------------------

    def _save(self, objective: Objective, optimizer: torch.optim.Optimizer) -> None:
        random_states = self.accelerator.gather(torch.get_rng_state().to(self.accelerator.device).unsqueeze(0))
        if self.accelerator.is_main_process:
            tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
            tensors |= {f"objective.{name}": tensor for name, tensor in objective.state_dict().items()}
            if self.mean is not None:
                tensors |= {f"mean.{name}": tensor for name, tensor in self.mean.state_dict().items()}
            tensors |= pack_optimizer(optimizer) | {"random": random_states}
            self.run.keep_last(tensors, asdict(self.position))
        self.saved_at = time.monotonic()

    def restore(self, tensors: dict[str, Tensor], progress: dict[str, Any]) -> None:
        """Everything as it was when `last.safetensors` was written."""
        if not self.run.was_trained_on(self.seen, ("train", self.recipe.selection.split)):
            raise WatchwordError(
                f"the data of {self.run.folder} has changed since it was begun (captions, splits or features): "
                "put it back, or begin a new run"
            )
        with not_of_this_run(self.run):
            self.position = TypeAdapter(Position).validate_python(progress)
            self.model.load_state_dict(beginning_with("model.", tensors))
            num_processes = len(tensors["random"])
        self.resumed = tensors
        if self.accelerator.num_processes != num_processes:
            raise WatchwordError(f"this run was trained by {num_processes} processes: resume it with as many")
        with not_of_this_run(self.run):
            torch.set_rng_state(tensors["random"][self.accelerator.process_index].cpu())
        log = self.run.folder / "log.jsonl"
        if self.accelerator.is_main_process and log.exists():
            with log.open("r+b") as file:
                file.truncate(self.position.log_bytes)  # lines after the position that is resumed will be written again


def running_mean(model: Model, decay: float) -> AveragedModel:
    """Polyak's mean of the weights, exponentially weighed; the first steps, far from the end, are soon forgotten."""

    def follow(means: Any, weights: Any, steps: Any) -> None:
        torch._foreach_lerp_(list(means), list(weights), max(1 - decay, 9 / (10 + int(steps))))

    return AveragedModel(model, multi_avg_fn=follow)


@torch.no_grad()
def begin_with_vectors(model: Model, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    """Embeddings of the words in these rows (M,) begin as vectors (M, E); those of others stay as they were drawn."""
    width = model.embedding.embedding_dim
    if vectors.shape[1] != width:
        raise WatchwordError(
            f"the word vectors have {vectors.shape[1]} numbers, the model's embeddings {width}: "
            f"set model.embedding_size={vectors.shape[1]}"
        )
    model.embedding.weight[torch.from_numpy(rows)] = torch.from_numpy(vectors)


def load_matching(model: Model, trained: Model, name: str) -> None:
    """The weights of a trained model into a new one of the same make."""
    try:
        model.load_state_dict(trained.state_dict())
    except RuntimeError as error:
        problem = str(error).splitlines()[-1].strip()
        raise WatchwordError(f"cannot start from {name}, its model is made differently: {problem}") from error
