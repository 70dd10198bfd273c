"""Every reader of users' files gives an object or a WatchwordError, whatever the file holds."""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tests.captioners import write_captioner
from tests.libraries import add
from watchword.backbones.weights import load_user_weights
from watchword.captioning.bundle import ENSEMBLE_FILE, STREAMS_FILE, CaptionerBundle
from watchword.captioning.confidence import Calibration
from watchword.captioning.export import export
from watchword.captioning.journal import Journal
from watchword.cli._shared import read_list, score_table
from watchword.config import Recipe, read_recipe
from watchword.data.annotations import read_annotations
from watchword.data.benchmarks import share_text
from watchword.data.dataset import Features
from watchword.data.imports import Rules, import_features, open_features
from watchword.data.msvd import read_mapping
from watchword.documents import parse_json, parse_toml
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.library import Library
from watchword.metrics.files import read_hypotheses, read_references
from watchword.models import build_model
from watchword.models.checkpoint import load_model
from watchword.preferences import config_with, is_offline, origin_of, preference
from watchword.research.shapes.folder import read_truth, truth_to_json
from watchword.research.shapes.videos import ShapesConfig, draw_video
from watchword.research.study import _read as read_study_file
from watchword.research.study import preferences as preferences_of
from watchword.research.study import read_judgements, read_key
from watchword.text.vocabulary import Vocabulary, read_word_vectors
from watchword.training.curves import draw_curves
from watchword.training.run import Run
from watchword.types import StreamArrays

DEEP = "[" * 200_000
FEW = settings(
    max_examples=15,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CAPTIONS = '{"video": "a", "split": "train", "captions": ["a man"], "category": 1, "path": "a.mp4"}\n'
MSRVTT = (
    '{"videos": [{"video_id": "a", "split": "train", "category": 1}],'
    ' "sentences": [{"video_id": "a", "caption": "a man"}]}'
)
RECIPE = """seed = 1
[data]
captions = "captions.jsonl"
store = "features"
[model]
name = "soft_attention"
hidden_size = 16
[[phases]]
epochs = 2
"""


Damage = list[tuple[float, int]]
DAMAGE = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=8)


def damaged(raw: bytes, damage: Damage) -> bytes:
    """Bytes are changed, each at a place between the beginning (0) and the end (1)."""
    changed = bytearray(raw)
    for place, value in damage:
        changed[int(place * (len(raw) - 1))] = value
    return bytes(changed)


def object_or_error(read: Callable[[], Any]) -> None:
    with contextlib.suppress(WatchwordError):
        read()


def calibration(path: Path) -> Any:
    return Calibration.load(path.parent)


def run_data(path: Path) -> Any:
    return Run(path.parent).training_data


def journal(path: Path) -> Any:
    return Journal(path, {"top": 1}, resume=True)


def scores(path: Path) -> Any:
    found = Run(path.parent).scores("val")
    return score_table({"run": found["scores"]}, share_text(found["data"]) if found.get("data") else "")


def predictions(path: Path) -> Any:
    return {str(row["image_id"]): str(row["caption"]) for row in Run(path.parent).predictions("val")}


def seen(path: Path) -> Any:
    run = Run(path.parent)
    return [run.trained_on, run.was_trained_on({"splits": {}, "streams": {}, "used": {"train": {}}}, ["train"])]


def preferences(path: Path) -> Any:
    with mock.patch("watchword.preferences.config_file", return_value=path), mock.patch.dict(os.environ, clear=True):
        assert is_offline() in (True, False)
        return [config_with("model", "light"), preference("model"), origin_of("data")]


STUDY_KEY = '{"study": "s", "first": "A", "second": "B", "items": [{"video": "a", "first_is": "left"}]}'
STUDY_ANSWERS = '{"study": "s", "rater": "r", "answers": [{"item": 0, "question": "relevance", "choice": "left"}]}'
TRUTH = json.dumps(truth_to_json("a", draw_video(ShapesConfig(count=10, frames=8), 0).truth))


def study_key(path: Path) -> Any:
    return study_of(read_key(path), json.loads(STUDY_ANSWERS))


def study_answers(path: Path) -> Any:
    return study_of(json.loads(STUDY_KEY), read_study_file(path))


def study_of(key: Any, answers: Any) -> Any:
    return preferences_of(read_judgements(key, {"answers": answers}), samples=10)


def word_vectors(path: Path) -> Any:
    return read_word_vectors(path, Vocabulary(["man", "woman"]))


def members(path: Path) -> Any:
    return CaptionerBundle(path.parent).weights


def stream_settings(path: Path) -> Any:
    (path.parent / "recipe.toml").write_text(RECIPE)
    return CaptionerBundle(path.parent).settings()


def store_settings(path: Path) -> Any:
    store = Store(path.parent / "store")
    written = store.write("a", "x", StreamArrays(np.ones((1, 1, 2)), np.zeros(1), np.array([[0.0, 0.0, 1.0, 1.0]])), {})
    written.with_name("settings.json").write_bytes(path.read_bytes())
    return store.settings("x")


def curves(path: Path) -> Any:
    draw_curves(path.parent)
    return path


# What a reader reads: a file's name, a good content, and the reader.
TEXTS: dict[str, tuple[str, str, Callable[[Path], Any]]] = {
    "captions.jsonl": ("captions.jsonl", CAPTIONS, read_annotations),
    "captions.csv": ("captions.csv", "video,caption,split,category\na.mp4,a man,train,1\n", read_annotations),
    "MSR-VTT": ("videodatainfo.json", MSRVTT, read_annotations),
    "MSVD": ("sents_train_lc_nopunc.txt", "vid1\ta man is talking\n", read_annotations),
    "recipe": ("recipe.toml", RECIPE, read_recipe),
    "references": ("refs.json", '{"a": ["a man", "a person"]}', read_references),
    "hypotheses": ("hyps.json", '[{"image_id": "a", "caption": "a man"}]', read_hypotheses),
    "hypotheses by line": ("hyps.jsonl", '{"video": "a", "caption": "x"}\n{"video": "b", "caption": "y"}',
                           read_hypotheses),
    "vocabulary": ("vocabulary.txt", "man\t0.5\nwoman\t0.7\n", Vocabulary.load),
    "calibration": ("calibration.json", '{"bias": 1, "centre": {"a": 1}, "scale": {"a": 1}, "weight": {"a": 1},'
                    ' "about": {}}', calibration),
    "scores": ("scores-val.json", '{"scores": {"CIDEr": 0.5}, "data": {"videos": 1, "of": 2, "sha256": "a",'
               ' "trained_on": "b"}}', scores),
    "predictions": ("predictions-val.json", '[{"image_id": "a", "caption": "a man", "score": 0.5}]', predictions),
    "used data": ("data.json", '{"splits": {}, "streams": {}, "used": {"train": {"sha256": "1"}}}', seen),
    "config": ("config.toml", 'model = "light"\noffline = "1"\n', preferences),
    "data.json": ("data.json", '{"splits": {"train": "1"}, "streams": {"appearance": "1"}}', run_data),
    "truth": ("truth.jsonl", TRUTH + "\n", read_truth),
    "study key": ("study.key.json", STUDY_KEY, study_key),
    "study answers": ("answers.json", STUDY_ANSWERS, study_answers),
    "log": ("log.jsonl", '{"epoch": 1, "loss": 2.5, "CIDEr": 0.4}\n{"epoch": 2, "loss": 2, "val_loss": 1e3}\n', curves),
    "word vectors": ("glove.txt", "man 1 2 3\nwoman 4 5 6\n", word_vectors),
    "movies": ("M-VAD_train.csv", "a_1\t00:00:32.714\t00:00:37.660\tShe walks in.\n", read_annotations),
    "names": ("youtube_mapping.txt", "-4wsuPCjDBc_5_15 vid1\n", read_mapping),
    "list": ("list.txt", "a.mp4\nb.mp4\n", read_list),
    "ensemble": (ENSEMBLE_FILE, "light\n", members),
    "streams": (STREAMS_FILE, '{"appearance": {"backbone": "x"}}', stream_settings),
    "store settings": ("settings.json", '{"backbone": "x", "time_steps": 2}', store_settings),
    "journal": ("out.json.part", '{"top": 1}\n{"video": "a", "seconds": 1.0, "warnings": []}\n', journal),
}  # fmt: skip
pieces = st.sampled_from(
    ["null", "[]", "{}", "-1", "1e999", "NaN", '"x"', "[" * 3000, "9" * 5000, "\0", "\n", '"', "\udcff", ",", "\t"]
)


@pytest.mark.parametrize("name", TEXTS)
@given(data=st.data())
@FEW
def test_a_damaged_text_is_an_object_or_a_line(name: str, tmp_path: Path, data: st.DataObject) -> None:
    """Parts of a good file are replaced; or it is cut; or it is another file altogether."""
    file, good, read = TEXTS[name]
    text = good
    for _ in range(data.draw(st.integers(1, 3))):
        begin = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(begin, min(len(text), begin + 12)))
        text = text[:begin] + data.draw(pieces) + text[end:]
    (tmp_path / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    object_or_error(lambda: read(tmp_path / file))


@pytest.mark.parametrize("content", ["null", "[]", "1", '"x"', DEEP, '{"a": ' * 100_000, "9" * 5000, "\xff\xfe"])
@pytest.mark.parametrize("name", TEXTS)
def test_a_file_of_another_kind_is_an_object_or_a_line(name: str, content: str, tmp_path: Path) -> None:
    file, _, read = TEXTS[name]
    (tmp_path / file).write_bytes(content.encode("latin-1"))
    object_or_error(lambda: read(tmp_path / file))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("scores", '{"scores": {"CIDEr": "x"}}'),
        ("scores", '{"scores": {}, "data": {"videos": 1}}'),
        ("predictions", '[{"caption": "a man"}]'),
        ("used data", '{"splits": {}, "streams": {}, "used": {"train": []}}'),
        ("config", 'model = "light'),
        ("study key", STUDY_KEY.replace("first_is", "second_is")),
        ("study answers", STUDY_ANSWERS.replace('"relevance"', "[]")),
        ("truth", TRUTH.replace('"facts": {', '"facts": [], "x": {')),
        ("ensemble", "\udcff"),
    ],
)
def test_what_a_file_lacks_is_a_line(name: str, content: str, tmp_path: Path) -> None:
    file, _, read = TEXTS[name]
    (tmp_path / file).write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(WatchwordError):
        read(tmp_path / file)


def test_a_damaged_line_of_the_log_is_left_out_of_the_curves(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"loss": 2}\n{"loss": "x", "CIDEr": 1e300}\n[]\n{"loss"')
    draw_curves(tmp_path)
    assert (tmp_path / "curves.png").exists()


def test_a_good_file_is_read(tmp_path: Path) -> None:
    for file, good, read in TEXTS.values():
        (tmp_path / file).write_text(good)
        assert read(tmp_path / file) is not None
        (tmp_path / file).unlink()


@pytest.mark.parametrize("parse", [parse_json, parse_toml])
def test_deep_brackets_are_a_value_error(parse: Callable[[str], Any]) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        parse(DEEP if parse is parse_json else f"value = {DEEP}")


@pytest.mark.parametrize(
    "word",
    [
        "seed=-1",
        "seed=" + "9" * 30,
        "seed=0x" + "f" * 5000,
        "data.max_words=" + "9" * 18,
        "phases.0.learning_rate=inf",
        "selection.beam=" + "9" * 9,
        "model=" + "[" * 5000,
    ],
)
def test_a_number_that_no_setting_means_is_refused(word: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(RECIPE)
    with pytest.raises(WatchwordError):
        read_recipe(tmp_path / "recipe.toml", [word])


def test_a_model_of_a_billion_units_is_refused() -> None:
    with pytest.raises(WatchwordError, match="hidden_size = 1000000000: at most 16384"):
        build_model({"name": "soft_attention", "hidden_size": 10**9}, {"appearance": 8}, 20)


def test_a_video_without_a_name_is_not_called_none(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text('{"video": null, "split": "train", "captions": ["a man"]}\n')
    with pytest.raises(WatchwordError, match="a video is named None"):
        read_annotations(tmp_path / "captions.jsonl")


# --- weights -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioners") / "tiny")


GOOD_ABOUT = {"settings": {"name": "mean_pool"}, "widths": {"appearance": 8}, "vocabulary": "x"}
ABOUTS = {
    "list": "[]",
    "null": "null",
    "deep": DEEP,
    "digits": "9" * 5000,
    "negative width": json.dumps(GOOD_ABOUT | {"widths": {"appearance": -1}}),
    "huge width": json.dumps(GOOD_ABOUT | {"widths": {"appearance": 10**12}}),
    "text width": json.dumps(GOOD_ABOUT | {"widths": {"appearance": "x"}}),
    "settings": json.dumps(GOOD_ABOUT | {"settings": []}),
}


@pytest.mark.parametrize("about", ABOUTS.values(), ids=ABOUTS)
def test_weights_with_bad_metadata_are_refused(about: str, captioner: Path, tmp_path: Path) -> None:
    bundle = CaptionerBundle(captioner)
    save_file(load_file(bundle.weights[0]), tmp_path / "model.safetensors", {"watchword": about})
    with pytest.raises(WatchwordError, match="nothing says of which model"):
        load_model(tmp_path / "model.safetensors", bundle.vocabulary)


@pytest.mark.parametrize("number", [b"\xff\xff\xff\xff", b"\0\0\x80\x7f"], ids=["NaN", "infinity"])
def test_weights_that_are_not_numbers_are_refused(number: bytes, captioner: Path, tmp_path: Path) -> None:
    broken = CaptionerBundle(shutil.copytree(captioner, tmp_path / "broken"))
    raw = broken.weights[0].read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    broken.weights[0].write_bytes(raw[: 8 + size] + number * ((len(raw) - 8 - size) // 4))
    with pytest.raises(WatchwordError, match="holds weights that are not numbers"):
        load_model(broken.weights[0], broken.vocabulary)
    with pytest.raises(WatchwordError, match="holds weights that are not numbers"):
        export([broken], tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("metadata", [None, {"progress": "[]"}, {"progress": '{"phase": "x"}'}, {"progress": DEEP}])
def test_what_training_did_not_keep_is_not_resumed(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    """A file of other weights, or of none."""
    save_file({"a": torch.zeros(2)}, tmp_path / "last.safetensors", metadata)
    object_or_error(Run(tmp_path).last)
    (tmp_path / "last.safetensors").write_bytes(b"junk")
    with pytest.raises(WatchwordError):
        Run(tmp_path).last()


def in_header(raw: bytes, damage: Damage) -> bytes:
    """The header of a safetensors file, its length and metadata, is damaged; then a byte anywhere."""
    end = 8 + int(struct.unpack("<Q", raw[:8])[0])
    return damaged(damaged(raw[:end], damage) + raw[end:], damage[:1])


@given(damage=DAMAGE)
@FEW
def test_a_damaged_checkpoint_is_an_object_or_a_line(captioner: Path, tmp_path: Path, damage: Damage) -> None:
    bundle = CaptionerBundle(captioner)
    (tmp_path / "model.safetensors").write_bytes(in_header(bundle.weights[0].read_bytes(), damage))
    object_or_error(lambda: load_model(tmp_path / "model.safetensors", bundle.vocabulary))
    progress = {"progress": '{"phase": 0, "epoch": 1, "step": 3}'}
    save_file({"model.a": torch.zeros(2)}, tmp_path / "good.safetensors", progress)
    (tmp_path / "last.safetensors").write_bytes(in_header((tmp_path / "good.safetensors").read_bytes(), damage))
    object_or_error(Run(tmp_path).last)


@given(damage=DAMAGE)
@FEW
def test_a_damaged_checkpoint_of_ones_own_is_an_object_or_a_line(tmp_path: Path, damage: Damage) -> None:
    tensors = {"layer.weight": torch.ones(2, 3), "layer.bias": torch.zeros(2)}
    content = io.BytesIO()
    torch.save(tensors, content)
    save_file(tensors, tmp_path / "own.safetensors")
    for name, raw in (
        ("own.pth", content.getvalue()),
        ("own.safetensors", (tmp_path / "own.safetensors").read_bytes()),
    ):
        (tmp_path / name).write_bytes(damaged(raw, damage))
        object_or_error(lambda name=name: load_user_weights(tmp_path / name))  # type: ignore[misc]


# --- features ------------------------------------------------------------------------------------------------------


def stored(values: Any, times: Any = (0.0, 1.0), boxes: Any = ((0.0, 0.0, 1.0, 1.0),)) -> dict[str, torch.Tensor]:
    arrays = {"values": values, "times": times, "boxes": boxes}
    return {name: torch.as_tensor(array, dtype=torch.float32).contiguous() for name, array in arrays.items()}


BAD_FEATURES = {
    "width": stored(np.zeros((2, 1, 7))),
    "rank": stored(np.zeros((2, 8))),
    "no axis": stored(0.0),
    "boxes": stored(np.zeros((2, 1, 8)), boxes=np.zeros((3, 4))),
    "times": stored(np.zeros((2, 1, 8)), times=[0.0]),
    "NaN times": stored(np.zeros((2, 1, 8)), times=[0.0, float("nan")]),
}


@pytest.mark.parametrize("tensors", BAD_FEATURES.values(), ids=BAD_FEATURES)
def test_a_video_whose_features_differ_is_one_line(tensors: dict[str, torch.Tensor], tmp_path: Path) -> None:
    store = Store(tmp_path)
    good = StreamArrays(np.zeros((2, 1, 8), np.float32), np.arange(2.0), np.array([[0.0, 0.0, 1.0, 1.0]]))
    path = store.write("a", "appearance", good, {})
    save_file(tensors, path.with_name("b.safetensors"))
    data = Recipe.read({"data": {"captions": "x", "store": tmp_path}}, "test").data
    try:
        features = Features(store, data)
    except WatchwordError:
        return  # the first file that it finds says how wide the others are
    with pytest.raises(WatchwordError):
        features.read(["a", "b"])


def test_brain_floats_are_read_where_numpy_knows_them_or_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    good = StreamArrays(np.zeros((2, 1, 8), np.float32), np.arange(2.0), np.array([[0.0, 0.0, 1.0, 1.0]]))
    path = store.write("a", "appearance", good, {})
    tensors = {name: array.bfloat16() for name, array in stored(np.zeros((2, 1, 8))).items()}
    save_file(tensors, path.with_name("b.safetensors"))
    object_or_error(lambda: store.read("b", "appearance"))


def npz(header: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(64))
    return content.getvalue()


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 8), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 8), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 8), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 9000 + b"}",
        b"(" * 200,
        b"",
    ],
)
def test_an_array_that_declares_what_it_has_not_is_one_line(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "features.npz").write_bytes(npz(header))
    with open_features(tmp_path / "features.npz") as source:
        (outcome,) = import_features(source, Store(tmp_path / "store"), "appearance", Rules())
    assert outcome.problem


@given(damage=DAMAGE)
@FEW
def test_a_damaged_store_or_archive_is_an_object_or_a_line(tmp_path: Path, damage: Damage) -> None:
    store = Store(tmp_path / "store")
    good = StreamArrays(np.ones((2, 1, 8), np.float32), np.arange(2.0), np.array([[0.0, 0.0, 1.0, 1.0]]))
    path = store.write("a", "appearance", good, {})
    path.write_bytes(damaged(path.read_bytes(), damage))
    object_or_error(lambda: store.read("a", "appearance"))
    content = io.BytesIO()
    np.savez(content, a=np.ones((2, 8), np.float32))
    (tmp_path / "features.npz").write_bytes(damaged(content.getvalue(), damage))
    (tmp_path / "arrays").mkdir(exist_ok=True)
    np.save(tmp_path / "arrays" / "a.npy", np.ones((2, 8), np.float32))
    array = (tmp_path / "arrays" / "a.npy").read_bytes()
    (tmp_path / "arrays" / "a.npy").write_bytes(damaged(array[:128], damage) + array[128:])

    def read(name: str) -> None:
        with open_features(tmp_path / name) as source:
            list(import_features(source, Store(tmp_path / "imported"), "appearance", Rules(), overwrite=True))

    for name in ("features.npz", "arrays"):
        object_or_error(lambda name=name: read(name))  # type: ignore[misc]


# --- libraries -----------------------------------------------------------------------------------------------------


def test_a_name_in_a_library_that_is_no_text_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    add(Library(path), "a man is playing a guitar")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.write_bytes(path.read_bytes().replace(b"videos", b"vid\x80os"))
    with pytest.raises(WatchwordError, match="is damaged"):
        Library(path).videos()


@given(damage=DAMAGE)
@FEW
def test_a_damaged_library_is_a_library_or_a_line(tmp_path: Path, damage: Damage) -> None:
    path = tmp_path / "library.db"
    good = tmp_path / "good.db"
    if not good.exists():
        add(Library(good), "a man is playing a guitar", "a dog runs")
        with contextlib.closing(sqlite3.connect(good)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for file in tmp_path.glob("library.db*"):
        file.unlink()
    path.write_bytes(damaged(good.read_bytes(), damage))

    def read() -> None:
        library = Library(path)
        for row in library.videos():
            library.description(row.id)
            library.explanation(row.id)
        library.search("guitar -dog")
        library.count()

    object_or_error(read)
