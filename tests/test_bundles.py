"""Captioners as folders: how sure they are, how they are packed, how they learn new words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save

import watchword
from tests.captioners import WORDS, write_captioner
from tests.conftest import weights_or_skip
from tests.videos import numbered, write_video
from watchword.atomic_io import write_whole
from watchword.captioning import export as exporting
from watchword.captioning.bundle import (
    DEFAULT,
    CaptionerBundle,
    backbones_of,
    choose_bundle,
    find_bundle,
    missing_weights,
)
from watchword.captioning.confidence import Calibration, confidence, confidence_features, fit, out_of_fold
from watchword.captioning.export import calibrate, export, extend_vocabulary, no_better_shares
from watchword.config import Recipe
from watchword.data.dataset import build_vocabulary
from watchword.decoding import Hypotheses, mbr_decode
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError, WeightsMissing
from watchword.features.specs import RegionSpec
from watchword.features.store import Store
from watchword.metrics.statistics import rank_correlation
from watchword.models.checkpoint import load_model, read_tensors
from watchword.research.shapes.folder import write_shapes
from watchword.research.shapes.videos import ShapesConfig
from watchword.tensors import Stream
from watchword.text.vocabulary import NEVER_LAST, Vocabulary
from watchword.types import Clip, StreamArrays

# --- confidence ----------------------------------------------------------------------------------------------------


def test_rank_correlation_counts_order_alone() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 900]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 1, 1], [3, 2, 1]) == 0
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9486833)  # ties share their ranks


def test_a_calibration_learns_how_often_a_sign_is_right() -> None:
    random = np.random.default_rng(0)
    values = random.normal(-2, 1, 4000)
    chance = 1 / (1 + np.exp(-(0.5 + 1.5 * (values + 2))))
    shares = (random.random(4000) < chance).astype(float)
    found = [{"mean_log_probability": float(value)} for value in values]
    calibration = fit(found, shares.tolist())
    for value in (-3.0, -2.0, -1.0):
        true = 1 / (1 + np.exp(-(0.5 + 1.5 * (value + 2))))
        assert calibration({"mean_log_probability": value}) == pytest.approx(true, abs=0.03)


def test_few_videos_do_not_turn_what_is_known_upside_down() -> None:
    found = [{"mean_log_probability": float(value)} for value in np.linspace(-3, -1, 25)]
    against = fit(found, np.linspace(0.6, 0.4, 25).tolist())  # by chance, likelier captions were a little worse
    assert against(found[0]) < against(found[-1])
    many = fit(found * 40, np.linspace(0.6, 0.4, 25).tolist() * 40)
    assert many(found[0]) > many(found[-1])  # a thousand videos are believed


def test_shares_of_nothing_but_one_stay_below_one() -> None:
    found = [{"mean_log_probability": float(value)} for value in range(30)]
    assert 0.9 < fit(found, [1.0] * 30)(found[0]) < 1
    same = [{"mean_log_probability": -1.0}] * 30  # a sign that never differs
    assert fit(same, [0.5] * 30)(same[0]) == pytest.approx(0.5)


def test_a_video_is_not_judged_by_a_calibration_that_has_seen_it() -> None:
    random = np.random.default_rng(1)
    found = [{"mean_log_probability": float(value)} for value in random.normal(size=40)]
    shares = random.random(40).tolist()
    before = out_of_fold(found, shares)
    changed = [1 - shares[0], *shares[1:]]
    assert out_of_fold(found, changed)[0] == before[0]
    assert not np.array_equal(out_of_fold(found, changed), before)


def test_without_calibration_confidence_is_the_mean_probability_of_a_word() -> None:
    assert confidence(None, {"mean_log_probability": float(np.log(0.25))}) == pytest.approx(0.25)


def test_a_caption_is_compared_with_what_each_person_said() -> None:
    cat = Clip("cat", "val", ("a cat sleeps on a sofa", "a cat sleeps on a sofa", "the weather is fine today"))
    dog = Clip("dog", "val", ("a dog runs in the park", "one dog", "purple monkeys shout loudly"))
    same, none = no_better_shares([cat, dog], ["a cat sleeps on a sofa", "nothing of it at all"])
    assert same == pytest.approx((5 / 6 + 5 / 6 + 1) / 3)  # ties with the two who said it, better than all without one
    assert none == pytest.approx(1 / 6)  # ties with the two with whom nobody agrees
    _, better = no_better_shares([cat, dog], ["a cat sleeps", "one dog runs in the park"])
    assert better == pytest.approx(4 / 6)  # than everybody who spoke of the dog, not than the two who agree on the cat


def test_exporting_on_the_test_split_is_refused(tmp_path: Path) -> None:
    folder = CaptionerBundle(write_captioner(tmp_path / "tiny"))
    with pytest.raises(WatchwordError, match="test split"):
        calibrate(folder, tmp_path, tmp_path, "test")


def test_calibration_is_fitted_written_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CaptionerBundle(write_captioner(tmp_path / "tiny"))
    random = np.random.default_rng(0)
    store = Store(tmp_path / "store")
    rows = []
    for number in range(24):
        values = random.normal(size=(8, 1, 1280)).astype(np.float32)
        box = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
        store.write(f"v{number}", "appearance", StreamArrays(values, np.arange(8.0), box), {"backbone": "noise"})
        captions = [" ".join(random.permutation(WORDS)[:5]) for _ in range(3)]
        rows.append(json.dumps({"video": f"v{number}", "split": "val", "captions": captions}))
    (tmp_path / "captions.jsonl").write_text("\n".join(rows))
    done = calibrate(folder, tmp_path / "captions.jsonl", store.folder)
    assert done.calibration.about["videos"] == 24
    done.calibration.save(folder.folder)
    again = Calibration.load(folder.folder)
    assert again == done.calibration
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    found = watchword.describe(video, folder.folder)
    mean = float(np.log([word.probability for word in found.best.words]).mean()) if found.best else 0
    assert found.confidence != pytest.approx(np.exp(mean), abs=1e-3)
    monkeypatch.setattr(exporting, "MIN_VIDEOS", 25)
    with pytest.raises(WatchwordError, match="24 val videos"):
        calibrate(folder, tmp_path / "captions.jsonl", store.folder)
    (folder.folder / "calibration.json").write_text("{")
    with pytest.raises(WatchwordError, match="damaged"):
        Calibration.load(folder.folder)


# --- folders -------------------------------------------------------------------------------------------------------


def test_a_packed_captioner_says_the_same_in_half_the_bytes(tmp_path: Path) -> None:
    whole = CaptionerBundle(write_captioner(tmp_path / "whole"))
    packed = export([whole], tmp_path / "packed")
    assert {path.name for path in packed.folder.iterdir()} == {
        "model.safetensors",
        "recipe.toml",
        "streams.json",
        "vocabulary.txt",
    }
    tensors, _ = read_tensors(packed.folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert packed.settings() == whole.settings()
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    one, other = watchword.describe(video, whole.folder), watchword.describe(video, packed.folder)
    assert one.caption == other.caption
    assert one.confidence == pytest.approx(other.confidence, abs=0.01)
    with pytest.raises(WatchwordError, match="holds a captioner already"):
        export([whole], tmp_path / "packed")


def test_weights_say_all_settings_of_their_model(tmp_path: Path) -> None:
    """Those that nobody named too: a default that changes later does not change what the file builds."""
    folder = write_captioner(tmp_path / "run")
    tensors, metadata = read_tensors(folder / "model.safetensors")
    described = json.loads(metadata["watchword"])
    assert "normalise" not in CaptionerBundle(folder).recipe.model
    assert described["settings"]["normalise"] is False
    assert described["settings"]["hidden_size"] == 16
    described["settings"]["normalise"] = True  # as if it had been the default when this was written
    write_whole(folder / "model.safetensors", save(tensors, {"watchword": json.dumps(described)}))
    with pytest.raises(WatchwordError, match="does not fit its own settings"):
        load_model(folder / "model.safetensors", CaptionerBundle(folder).vocabulary)


def test_several_runs_are_packed_as_an_ensemble(tmp_path: Path) -> None:
    runs = [CaptionerBundle(write_captioner(tmp_path / str(seed), seed)) for seed in (0, 1)]
    both = export(runs, tmp_path / "both")
    assert [path.name for path in both.weights] == ["model.safetensors", "model.2.safetensors"]
    grown = extend_vocabulary(both, [Clip("v", "train", ("a zebra is running",))], 1, tmp_path / "grown")
    # the one that the recipe tells of learns on
    kept, first = (read_tensors(folder / "model.safetensors")[0] for folder in (grown, runs[0].folder))
    assert torch.equal(kept["cell.gates.weight"], first["cell.gates.weight"].half().float())
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    found = watchword.describe(video, both.folder)
    assert found.attention["appearance"].shape[1:] == (5, 1)
    assert np.allclose(found.attention["appearance"].sum((1, 2)), 1, atol=1e-5)
    (runs[1].folder / "vocabulary.txt").write_text("\n".join([*WORDS[1:], WORDS[0]]) + "\n")
    with pytest.raises(WatchwordError, match="do not share"):
        export([runs[0], CaptionerBundle(runs[1].folder)], tmp_path / "none")


def test_what_members_of_an_ensemble_have_in_common_is_kept_once(tmp_path: Path) -> None:
    runs = [CaptionerBundle(write_captioner(tmp_path / str(seed), seed)) for seed in (0, 1)]
    tensors, metadata = read_tensors(runs[1].folder / "model.safetensors")
    first, _ = read_tensors(runs[0].folder / "model.safetensors")
    tensors["embedding.weight"] = first["embedding.weight"]
    write_whole(runs[1].folder / "model.safetensors", save(tensors, metadata))
    both = export(runs, tmp_path / "both")
    again = export([both], tmp_path / "again")
    for folder in (both, again):
        second = folder.folder / "model.2.safetensors"
        assert second.stat().st_size < (folder.folder / "model.safetensors").stat().st_size
        whole, _ = read_tensors(second)
        assert whole.keys() == tensors.keys()
        assert all(torch.equal(whole[name], tensor.half()) for name, tensor in tensors.items())
        load_model(second, folder.vocabulary)
    write_whole(both.folder / "model.safetensors", save({"other": torch.zeros(1)}))
    with pytest.raises(WatchwordError, match="damaged"):
        read_tensors(both.folder / "model.2.safetensors")


def test_members_of_an_ensemble_read_their_own_streams(tmp_path: Path) -> None:
    weights_or_skip("yamnet")
    seeing = CaptionerBundle(write_captioner(tmp_path / "seeing"))
    listening = CaptionerBundle(write_captioner(tmp_path / "listening", 1, ("appearance", "audio")))
    both = export([seeing, listening], tmp_path / "both")
    assert both.recipe.data.streams == ("appearance", "audio")
    assert both.settings() == seeing.settings() | listening.settings()
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    found = watchword.describe(video, both.folder)
    assert set(found.attention) == {"appearance", "audio"}
    apart = CaptionerBundle(write_captioner(tmp_path / "apart", max_time_steps=4))
    with pytest.raises(WatchwordError, match=r"differ in data\.max_time_steps"):
        export([seeing, apart], tmp_path / "none")
    quick = export([seeing, apart], tmp_path / "quick", max_time_steps=3)
    assert watchword.describe(video, quick.folder).attention["appearance"].shape[1:] == (3, 1)
    settings = seeing.settings()
    settings["appearance"]["pixels"] = 96
    other = CaptionerBundle(write_captioner(tmp_path / "other"))
    (other.folder / "streams.json").write_text(json.dumps(settings))
    with pytest.raises(WatchwordError, match="read appearance with different settings"):
        export([seeing, other], tmp_path / "none")


def test_a_captioner_may_speak_together_with_one_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights_or_skip("yamnet")
    monkeypatch.setattr("watchword.captioning.bundle.SHIPPED", tmp_path / "shipped")
    light = CaptionerBundle(write_captioner(tmp_path / "shipped" / "light"))
    own = CaptionerBundle(write_captioner(tmp_path / "own", 1, ("appearance", "audio")))
    named, copied = export([own], tmp_path / "named", ["light"]), export([own, light], tmp_path / "copied")
    assert named.weights == [named.folder / "model.safetensors", light.folder / "model.safetensors"]
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    one, other = watchword.describe(video, named.folder), watchword.describe(video, copied.folder)
    assert one.caption == other.caption
    assert one.confidence == pytest.approx(other.confidence, abs=1e-3)
    for missing in ("lighter", str(tmp_path / "own"), "../own"):
        with pytest.raises(WatchwordError, match="unknown captioner"):
            export([own], tmp_path / "none", [missing])


def test_a_captioner_whose_recipe_says_so_lets_possible_captions_vote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchword.captioning import captioner as captioner_module

    asked = []

    def noted(*arguments: Any, **named: Any) -> Hypotheses:
        asked.append(arguments[2])
        return mbr_decode(*arguments, **named)

    monkeypatch.setattr(captioner_module, "mbr_decode", noted)
    folder = write_captioner(tmp_path / "mbr")
    recipe = (folder / "recipe.toml").read_text()
    assert "mbr_samples = 0" in recipe
    (folder / "recipe.toml").write_text(recipe.replace("mbr_samples = 0", "mbr_samples = 7"))
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(5)])
    found = watchword.describe(video, folder, top=3)
    assert asked == [7]
    assert len({found.caption, *(str(other) for other in found.alternatives)}) == 3
    assert found.caption.split()[-1] not in NEVER_LAST


def test_a_vocabulary_remembers_what_its_words_tell(tmp_path: Path) -> None:
    clips = [
        Clip(name, "train", captions) for name, captions in {"1": ("a dog", "a dog runs"), "2": ("a cat",)}.items()
    ]
    vocabulary = build_vocabulary(clips, 1)
    assert vocabulary.content is not None
    told = dict(zip(vocabulary.words, vocabulary.content, strict=True))
    assert told["a"] == 0  # said of both videos
    assert told["dog"] == told["runs"] == told["cat"] == pytest.approx(np.log(2))
    assert told["<eos>"] == 0
    (tmp_path / "vocabulary.txt").write_text(vocabulary.text)
    again = Vocabulary.load(tmp_path / "vocabulary.txt")
    assert (again.words, again.checksum) == (vocabulary.words, vocabulary.checksum)
    assert again.content == pytest.approx(vocabulary.content, rel=1e-3)
    (tmp_path / "vocabulary.txt").write_text("a\ndog\n")  # as it was written before
    assert Vocabulary.load(tmp_path / "vocabulary.txt").content is None
    for damaged in ("much", "nan", "-1"):
        (tmp_path / "vocabulary.txt").write_text(f"a\t0\ndog\t{damaged}\n")
        with pytest.raises(WatchwordError, match="damaged"):
            Vocabulary.load(tmp_path / "vocabulary.txt")


def test_where_captions_vote_their_agreement_is_the_sign_of_a_good_one() -> None:
    assert confidence_features([-1.0, -3.0]) == {"mean_log_probability": -2.0}
    assert confidence_features([-1.0, -3.0], 0.4) == {"agreement": 0.4}
    assert confidence(None, confidence_features([-1.0], 0.4)) == 0.4
    made_for_another_search = Calibration(
        0.0, {"mean_log_probability": 0.0}, {"mean_log_probability": 1.0}, {"mean_log_probability": 1.0}, {}
    )
    assert confidence(made_for_another_search, confidence_features([-1.0], 0.4)) == 0.4


def test_the_best_captioner_that_can_work_here_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHWORD_MODEL")
    monkeypatch.setattr("watchword.captioning.bundle.SHIPPED", tmp_path)
    with pytest.raises(WatchwordError, match="no captioner came with this installation"):
        choose_bundle()
    write_captioner(tmp_path / "light")
    write_captioner(tmp_path / "large", streams=("appearance", "audio"))
    monkeypatch.setattr("watchword.backbones.weights.is_present", lambda name: name != "yamnet")
    assert missing_weights(find_bundle("large")) == ["yamnet"]
    assert choose_bundle()[0].name == "light"
    monkeypatch.setattr("watchword.captioning.bundle.BY_PREFERENCE", ("large", "light"))
    chosen, hint = choose_bundle()
    assert chosen.name == "light"
    assert hint == "the captioner large is not used, its backbone is missing: watchword weights get yamnet"
    monkeypatch.setattr("watchword.backbones.weights.is_present", lambda name: True)
    chosen, hint = choose_bundle()
    assert (chosen.name, hint) == ("large", "")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_captioner(Path("large"))  # a run of somebody's own that has the name by chance
    assert choose_bundle()[0].folder == tmp_path / "large"
    monkeypatch.setenv("WATCHWORD_MODEL", "light")
    assert choose_bundle()[0].name == "light"
    monkeypatch.setenv("WATCHWORD_MODEL", "../light")
    assert choose_bundle()[0].folder.resolve() == tmp_path / "light"
    monkeypatch.setenv("WATCHWORD_MODEL", "lihgt")
    with pytest.raises(WatchwordError, match="did you mean 'light'"):
        choose_bundle()


def test_the_backbone_of_the_default_captioner_is_downloaded_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WATCHWORD_MODEL")
    monkeypatch.setattr("watchword.captioning.bundle.SHIPPED", tmp_path)
    write_captioner(tmp_path / "light")
    write_captioner(tmp_path / "base", streams=("appearance", "audio"))
    there: list[str] = []
    monkeypatch.setattr("watchword.backbones.weights.is_present", lambda name: name in there or name != "yamnet")

    def download(packaged: PackagedFile, report: object) -> None:
        if not online:
            raise WeightsMissing("are you online?")
        there.append(packaged.name)

    monkeypatch.setattr("watchword.captioning.bundle.fetch", download)
    online = False
    chosen, hint = choose_bundle()
    assert chosen.name == "light"
    assert hint.endswith("base is not used, its backbone is missing: watchword weights get yamnet (are you online?)")
    online = True
    chosen, hint = choose_bundle()
    assert (chosen.name, hint, there) == ("base", "", ["yamnet"])


def test_an_unknown_name_gets_the_one_that_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.captioning.bundle.SHIPPED", tmp_path)
    write_captioner(tmp_path / "light")
    with pytest.raises(WatchwordError, match="did you mean 'light'"):
        find_bundle("lihgt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(WatchwordError, match=r"has no recipe\.toml"):
        find_bundle(tmp_path / "empty")


# --- new words -----------------------------------------------------------------------------------------------------


def test_a_captioner_that_learns_words_keeps_what_it_knows(tmp_path: Path) -> None:
    known = CaptionerBundle(write_captioner(tmp_path / "known"))
    clips = [Clip("v", "train", ("a zebra is running", "a zebra is eating"))]
    folder = extend_vocabulary(known, clips, 1, tmp_path / "grown")
    grown = CaptionerBundle(folder).vocabulary
    assert grown.words[: len(known.vocabulary)] == known.vocabulary.words
    assert set(grown.words[len(known.vocabulary) :]) == {"zebra", "eating"}
    old, new = load_model(known.weights[0], known.vocabulary), load_model(folder / "model.safetensors", grown)
    mask = torch.ones(1, 3, 1, dtype=torch.bool)
    stream = Stream(torch.randn(1, 3, 1, 1280), mask, torch.zeros(1, 3), torch.zeros(1, 3, 1, 4))
    with torch.no_grad():
        logits = []
        for model in (old, new):
            memory, state = model.encode({"appearance": stream})
            logits.append(model.logits(model.step(torch.tensor([[1]]), memory, state).outputs))
    assert torch.equal(logits[0], logits[1][..., : len(known.vocabulary)])
    once = extend_vocabulary(known, [replace(clips[0], captions=("a zebra is running",))], 2, tmp_path / "rare")
    assert "zebra" not in CaptionerBundle(once).vocabulary  # said once where twice is asked for


@pytest.mark.slow
def test_own_videos_and_captions_become_a_captioner(tmp_path: Path) -> None:
    """The tutorial's command, from a captioner that knows none of the words."""
    from typer.testing import CliRunner

    from watchword.cli.main import app

    run = CliRunner()
    drawn = run.invoke(
        app, ["research", "shapes", str(tmp_path), "--count", "12", "--write-videos", "--distractors", "0"]
    )
    assert drawn.exit_code == 0, drawn.output
    (tmp_path / "videos" / "shapes000003.mp4").write_bytes(b"broken")
    start, output = write_captioner(tmp_path / "start"), tmp_path / "run"
    words = ["train", "--videos", str(tmp_path / "videos"), "--captions", str(tmp_path / "captions.csv")]
    words += ["--init-from", str(start), "--output", str(output), "--epochs", "2"]
    done = run.invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "shapes000003.mp4" in done.stderr  # one bad video is told, and left out
    assert "shapes000003" not in (output / "captions.jsonl").read_text()
    words_known = CaptionerBundle(output).vocabulary.words
    assert words_known[: len(WORDS) + 4] == ("<pad>", "<bos>", "<eos>", "<unk>", *WORDS)
    assert "circle" in words_known
    assert (output / "scores-test.json").exists()
    again = run.invoke(app, words)
    assert again.exit_code == 0, again.output  # nothing left to do
    video = tmp_path / "videos" / "shapes000008.mp4"
    said = run.invoke(app, ["describe", str(video), "--model", str(output)])
    assert said.exit_code == 0, said.output
    assert said.stdout.strip()


@pytest.mark.parametrize("is_known", [True, False])
def test_the_recipe_for_own_videos_is_one(tmp_path: Path, is_known: bool) -> None:
    from watchword.cli.train import OwnData, own_recipe

    start = CaptionerBundle(write_captioner(tmp_path / "known")) if is_known else None
    clips = [Clip(f"v{number}", "train", ("a zebra runs", "a zebra is running")) for number in range(40)]
    data = OwnData(tmp_path / "videos", tmp_path / "captions.csv", tmp_path / "run", start, 6)
    recipe = Recipe.read(own_recipe(data, clips), "own")
    assert recipe.phases[0].epochs == 6
    assert recipe.data.streams == ("appearance",)
    if start is None:
        assert recipe.init_from is None
    else:
        assert recipe.init_from is not None
        assert recipe.model == start.recipe.model
        assert recipe.data.max_time_steps == start.recipe.data.max_time_steps
        assert "zebra" in CaptionerBundle(recipe.init_from).vocabulary


def test_own_videos_start_from_the_captioner_that_describes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from watchword.cli.train import OwnData, own_recipe, starting_captioner
    from watchword.models.checkpoint import load_model

    monkeypatch.delenv("WATCHWORD_MODEL")
    monkeypatch.setattr("watchword.backbones.weights.is_present", lambda name: True)
    start = starting_captioner(None)
    assert start.name == DEFAULT
    assert starting_captioner("light").name == "light"
    clips = [Clip(f"v{number}", "train", ("a zebra runs quuxly",) * 3) for number in range(8)]
    data = OwnData(tmp_path / "videos", tmp_path / "captions.csv", tmp_path / "run", start, 1)
    recipe = Recipe.read(own_recipe(data, clips), "own")
    assert recipe.init_from is not None
    begun = CaptionerBundle(recipe.init_from)
    assert "quuxly" in begun.vocabulary
    assert "quuxly" not in start.vocabulary
    load_model(begun.weights[0], begun.vocabulary)  # every tensor has the size that the longer vocabulary needs


def test_own_data_are_two_things(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from watchword.cli.main import app

    done = CliRunner().invoke(app, ["train", "--videos", str(tmp_path)])
    assert isinstance(done.exception, WatchwordError)
    assert "--captions" in str(done.exception)


def test_captions_without_videos_are_told(tmp_path: Path) -> None:
    from watchword.cli.train import OwnData, train_own

    write_shapes(tmp_path, ShapesConfig(count=10))
    (tmp_path / "videos").mkdir()
    with pytest.raises(WatchwordError, match="none of the 10 videos"):
        train_own(OwnData(tmp_path / "videos", tmp_path / "captions.jsonl", tmp_path / "run", None, 1))


def test_a_stream_of_regions_needs_the_weights_of_two_backbones() -> None:
    spec = RegionSpec(weights="a", region_weights="b")
    assert backbones_of(spec) == {"yolov4_tiny": "a", "efficientnet_lite0": "b"}
