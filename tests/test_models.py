"""The contract, held by every model in the table."""

from dataclasses import replace

import pytest
import torch

from tests.conftest import noise_stream
from watchword.decoding import beam, greedy, rescore, teacher_force
from watchword.losses.objective import CrossEntropy, CrossEntropySettings
from watchword.models import MODELS, Model, build_model
from watchword.tensors import BOS, EOS, PAD, UNK, Batch, Stream

NUM_WORDS = 14
LENGTHS = [5, 3, 4]
CAPTIONS = torch.tensor(
    [
        [[BOS, 5, 6, EOS, PAD, PAD], [BOS, 7, 8, 9, 10, EOS]],
        [[BOS, 11, EOS, PAD, PAD, PAD], [BOS, 4, 4, 13, EOS, PAD]],
        [[BOS, 12, 5, 7, EOS, PAD], [PAD, PAD, PAD, PAD, PAD, PAD]],
    ]
)

G2L: dict[str, object] = {
    "feature_size": 16,
    "aligned_size": 8,
    "attention_size": 12,
    "region_stream": "appearance",
}
STATS: dict[str, object] = {"feature_size": 16, "attention_size": 16}
DUAL_AFR: dict[str, object] = {
    "layers": ["appearance", "motion"],
    "shapes": [[1, 1, 2], [1, 1, 1]],
    "attention_size": 16,
    "initial_range": 0.4,
}
# "model variant" -> what it must be told about the streams of these tests; a model without variants stands by itself
VARIANTS: dict[str, dict[str, object]] = {
    "hierarchical na": {"variant": "na", "objects": "appearance"},
    "hierarchical ta_b1": {"variant": "ta_b1", "attention_size": 16},
    "hierarchical ta_b2": {"variant": "ta_b2", "objects": "appearance", "attention_size": 16, "feature_size": 5},
    "hierarchical ha": {"variant": "ha", "objects": "appearance", "attention_size": 16},
    "refocus attention": {"variant": "attention", "spatial": "appearance", "audio": "motion"},
    "refocus bigru": {"variant": "bigru", "spatial": "appearance", "audio": "motion"},
    "refocus kbigru": {"variant": "kbigru", "spatial": "appearance", "audio": "motion"},
    "refocus kbigru_all": {"variant": "kbigru_all", "spatial": "appearance", "audio": "motion"},
    "refocus vre": {"variant": "vre", "spatial": "appearance", "audio": "motion"},
    "refocus projected": {
        "variant": "vre",
        "spatial": "appearance",
        "audio": "motion",
        "projected_size": 8,
        "normalise_projected": True,
    },
    "soft_attention": {},
    "soft_attention normalised": {"normalise": True},
    "mean_pool": {},
    "mean_pool normalised": {"normalise": True},
    "global2local global": {**G2L, "variant": "global"},
    "global2local normalised": {**G2L, "normalise": True},
    "global2local aligned": {**G2L, "variant": "aligned"},
    **{f"global2local local {frames}": {**G2L, "frames": frames} for frames in (1, 2, 3)},
    "global2local argmax": {**G2L, "sampler": "argmax"},
    "stats stats": STATS,
    "stats st": {"variant": "st", **STATS},
    "stats ts": {"variant": "ts", **STATS},
    "stats normalised": {"normalise": True, **STATS},
    "stats attention": {"variant": "st", "pooling": "attention", **STATS},
    "stats mean_attention": {"variant": "st", "pooling": "mean_attention", **STATS},
    "stats regions": {"pooling": "lstm", "without_grid": ["appearance"], **STATS},
    **{
        f"dual_afr {variant}": {"variant": variant, **DUAL_AFR}
        for variant in ("mlp", "max_pool", "average_pool", "hypercolumn", "soft")
    },
    "dual_afr top_only": {"variant": "top_only", "top": "appearance"} | DUAL_AFR,
    "dual_afr projected": {**DUAL_AFR, "feature_size": 8, "kernel": "receptive"},
    "dual_afr normalised": {"normalise": True, **DUAL_AFR},
    "dual_afr single": {"variant": "single", "layer": 1, **DUAL_AFR},
    **{f"dual_afr hard {one}": {"variant": "hard", "hard": one, **DUAL_AFR} for one in ("both", "layers", "locations")},
}
WITH_VARIANTS = {name.split()[0] for name in VARIANTS}
# Parameters that only a loss of the model's own teaches; and those that choose among locations, where motion has one:
# their tests are elsewhere.
TAUGHT_ELSEWHERE: dict[str, tuple[str, ...]] = (
    dict.fromkeys(("refocus vre", "refocus projected"), ("encoder.refocusing.",))
    | dict.fromkeys(
        ("stats stats", "stats st", "stats ts", "stats regions", "stats normalised"), ("st.1.attend.", "ts.1.attend.")
    )
    | {
        "dual_afr hard both": ("over_locations.", "over_layers."),
        "dual_afr hard layers": ("over_locations.", "over_layers."),
        "dual_afr hard locations": ("over_locations.",),
    }
)

pytestmark = pytest.mark.parametrize("name", [*(name for name in MODELS if name not in WITH_VARIANTS), *VARIANTS])


def settings_of(name: str, **settings: object) -> dict[str, object]:
    return {"name": name.split()[0], **VARIANTS.get(name, {}), **settings}


def small(name: str, dropout: float = 0.0) -> Model:
    torch.manual_seed(0)
    settings = settings_of(name, hidden_size=16, embedding_size=8, dropout=dropout)
    return build_model(settings, {"appearance": 6, "motion": 4}, NUM_WORDS)


def streams(pad: int = 0) -> dict[str, Stream]:
    return {
        "appearance": noise_stream(LENGTHS, width=6, seed=1, pad=pad),
        "motion": noise_stream(LENGTHS, locations=1, width=4, seed=2, pad=pad),
    }


def log_probabilities(model: Model, pad: int = 0) -> torch.Tensor:
    return model.log_probabilities(teacher_force(model, streams(pad), CAPTIONS[:, :, 1:]).outputs)


def test_padding_of_videos_changes_nothing(name: str) -> None:
    model = small(name).eval()
    torch.testing.assert_close(log_probabilities(model), log_probabilities(model, pad=3), rtol=1e-4, atol=1e-5)


def test_a_time_step_with_nothing_to_see_does_not_hide_those_after_it(name: str) -> None:
    model = small(name).eval()
    gapped = streams()
    for stream in gapped.values():
        stream.mask[0, 1] = False
        stream.values[0, 1] = 0
    before = teacher_force(model, gapped, CAPTIONS[:, :, 1:]).outputs
    largest = 0.0
    for push in (3, -3, 30, -30):  # one location alone is seen by hard attention: some push makes it the one
        changed = {key: replace(stream, values=stream.values.clone()) for key, stream in gapped.items()}
        changed["appearance"].values[0, LENGTHS[0] - 1] += push  # the last time step of the first video
        after = teacher_force(model, changed, CAPTIONS[:, :, 1:]).outputs
        largest = max(largest, (before - after)[0].abs().max().item())
    assert largest > 1e-4


def test_captions_of_a_video_do_not_hear_each_other(name: str) -> None:
    model = small(name).eval()
    together = log_probabilities(model)
    alone = model.log_probabilities(teacher_force(model, streams(), CAPTIONS[:, 1:2, 1:]).outputs)
    torch.testing.assert_close(together[:, 1:2], alone, rtol=1e-4, atol=1e-5)


def test_a_video_does_not_see_its_neighbours_in_the_batch(name: str) -> None:
    model = small(name).eval()
    together = log_probabilities(model)
    alone = {key: Stream(*(part[1:2] for part in vars(stream).values())) for key, stream in streams().items()}
    single = model.log_probabilities(teacher_force(model, alone, CAPTIONS[1:2, :, 1:]).outputs)
    torch.testing.assert_close(together[1:2], single, rtol=1e-4, atol=1e-5)


def test_what_is_seen_changes_what_is_said(name: str) -> None:
    model = small(name).eval()
    other = {key: replace(stream, values=stream.values + 1) for key, stream in streams().items()}
    changed = model.log_probabilities(teacher_force(model, other, CAPTIONS[:, :, 1:]).outputs)
    assert (changed.exp() - log_probabilities(model).exp())[:, 0, 0].abs().max() > 1e-4


# --- a stream that one video lacks -----------------------------------------------------------------------------------


def absent(stream: str, video: int = 1) -> dict[str, Stream]:
    """The streams of three videos, of which one lacks a stream."""
    found = streams()
    found[stream].mask[video] = False
    found[stream].values[video] = 0
    return found


def nothing(width: int) -> Stream:
    """The stream as it is padded where no video of the batch has it: one location, not real."""
    return Stream(
        torch.zeros(1, 1, 1, width), torch.zeros(1, 1, 1, dtype=torch.bool), torch.zeros(1, 1), torch.zeros(1, 1, 1, 4)
    )


LACKING = pytest.mark.parametrize("stream", ["appearance", "motion"])


@LACKING
def test_a_stream_that_a_video_lacks_changes_nothing_for_the_others(name: str, stream: str) -> None:
    model = small(name).eval()
    found = model.log_probabilities(teacher_force(model, absent(stream), CAPTIONS[:, :, 1:]).outputs)
    assert found[:, :, :, EOS].isfinite().all()
    torch.testing.assert_close(found[[0, 2]], log_probabilities(model)[[0, 2]], rtol=1e-4, atol=1e-5)


@LACKING
def test_a_video_that_lacks_a_stream_is_alone_as_in_a_batch(name: str, stream: str) -> None:
    model = small(name).eval()
    together = model.log_probabilities(teacher_force(model, absent(stream), CAPTIONS[:, :, 1:]).outputs)
    alone = {key: Stream(*(part[1:2] for part in vars(one).values())) for key, one in absent(stream).items()}
    alone[stream] = nothing(alone[stream].values.shape[-1])
    single = model.log_probabilities(teacher_force(model, alone, CAPTIONS[1:2, :, 1:]).outputs)
    torch.testing.assert_close(together[1:2], single, rtol=1e-4, atol=1e-5)


@LACKING
def test_values_of_a_stream_that_a_video_lacks_do_not_count(name: str, stream: str) -> None:
    model = small(name).eval()
    before = teacher_force(model, absent(stream), CAPTIONS[:, :, 1:], keep_attention=True)
    other = absent(stream)
    other[stream].values[1] = 7.0
    after = teacher_force(model, other, CAPTIONS[:, :, 1:], keep_attention=True)
    torch.testing.assert_close(before.outputs, after.outputs, rtol=1e-5, atol=1e-6)
    for key, attention in before.attention.items():
        if key.rpartition(":")[2] == stream:
            assert attention[1].abs().max() == 0


@LACKING
def test_gradients_are_finite_where_a_video_lacks_a_stream(name: str, stream: str) -> None:
    model = small(name)
    batch = Batch(("a", "b", "c"), absent(stream), CAPTIONS)
    CrossEntropy(CrossEntropySettings())(model, batch, sampling_rate=0.0).total.backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is None or tensor.grad.isfinite().all(), parameter


def test_attention_is_a_distribution_over_what_is_really_there(name: str) -> None:
    model = small(name).eval()
    forced = teacher_force(model, streams(pad=1), CAPTIONS[:, :, 1:], keep_attention=True)
    for key, attention in forced.attention.items():
        mask = streams(pad=1)[key.rpartition(":")[2]].mask
        assert attention.shape == (3, 2, 5, *mask.shape[1:])
        torch.testing.assert_close(attention.sum((-2, -1)), torch.ones(3, 2, 5))
        assert attention.permute(1, 2, 0, 3, 4)[:, :, ~mask].abs().max() == 0


def test_every_parameter_learns(name: str) -> None:
    model = small(name)
    batch = Batch(("a", "b", "c"), streams(), CAPTIONS)
    CrossEntropy(CrossEntropySettings())(model, batch, sampling_rate=0.0).total.backward()
    for parameter, tensor in model.named_parameters():
        if parameter.startswith(TAUGHT_ELSEWHERE.get(name, ())) or not tensor.requires_grad:
            continue
        assert tensor.grad is not None, f"{parameter} got no gradient"
        assert tensor.grad.abs().max() > 0, f"{parameter} got a gradient of 0"


def test_padding_start_and_unknown_are_never_said(name: str) -> None:
    probabilities = log_probabilities(small(name).eval()).exp()
    assert probabilities[..., [PAD, BOS, UNK]].max() == 0
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, 2, 5))


def test_bfloat16_learns_nearly_the_same(name: str) -> None:
    """Under autocast the loss and its gradient are those of float32 but for rounding, and nothing has another type."""
    model, losses, gradients = small(name), [], []
    for short in (False, True):
        torch.manual_seed(0)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=short):
            loss = CrossEntropy(CrossEntropySettings())(model, Batch(("a", "b", "c"), streams(), CAPTIONS), 0.0)
        (loss.total / loss.weight).backward()
        losses.append(loss.total / loss.weight)
        gradients.append(model.to_words.weight.grad)
    assert losses[1].dtype == torch.float32
    torch.testing.assert_close(losses[1], losses[0], rtol=0.02, atol=0.02)
    assert torch.nn.functional.cosine_similarity(*(one.flatten() for one in gradients), dim=0) > 0.98


@pytest.mark.parametrize("length_power", [0.0, 0.7])
def test_a_found_caption_scores_what_the_search_said(name: str, length_power: float) -> None:
    """A search that mixes up the states of its beams fails here."""
    torch.manual_seed(3)
    model = small(name).eval()
    for parameter in model.parameters():  # opinions strong enough that beams cross
        torch.nn.init.normal_(parameter, std=0.6)
    with torch.no_grad():
        found = beam(model, streams(), 5, 8, num_best=5, length_power=length_power)
        assert len({tuple(caption.tolist()) for caption in found.captions[0]}) == 5
        torch.testing.assert_close(
            found.scores, rescore(model, streams(), found.captions, length_power), rtol=1e-4, atol=1e-4
        )


def test_four_clips_are_learned_by_heart(name: str) -> None:
    torch.manual_seed(0)
    model = build_model(
        settings_of(name, hidden_size=32, embedding_size=16, dropout=0.0), {"appearance": 6, "motion": 4}, 12
    )
    seen = {"appearance": noise_stream([4] * 4, width=6, seed=5), "motion": noise_stream([4] * 4, 1, 4, seed=6)}
    said = torch.tensor([[4, 5, 6, EOS], [7, 8, EOS, PAD], [5, 4, 9, EOS], [10, 11, 7, EOS]]).unsqueeze(1)
    batch = Batch(tuple("abcd"), seen, torch.cat([torch.full((4, 1, 1), BOS), said], -1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = CrossEntropy(CrossEntropySettings())(model, batch, sampling_rate=0.0)
        optimizer.zero_grad()
        (loss.total / loss.weight).backward()
        optimizer.step()
    found = greedy(model.eval(), seen, 6).captions
    assert torch.equal(found, said[:, :, : found.shape[2]])
