"""`watchword score` at the terminal."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.metrics import index as index_module

GOLDENS = Path(__file__).parents[1] / ".." / "shared" / "data"
REFERENCES = {"v1": ["a man plays a guitar", "someone plays"], "v2": ["two dogs run"], "v3": ["a cat"]}
HYPOTHESES = {"v1": "a man plays", "v2": "two dogs run", "v3": "a [bold]dog"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index_module, "meteor_available", lambda: False)  # its tables take half a minute to index


def written(path: Path, content: Any) -> str:
    path.write_text(json.dumps(content), "utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return [written(tmp_path / "references.json", REFERENCES), written(tmp_path / "hypotheses.json", HYPOTHESES)]


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, ["score", *arguments])
    if isinstance(result.exception, WatchwordError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_json_has_exactly_the_names_of_coco_caption(files: list[str]) -> None:
    scores = json.loads(run(*files, "--json").stdout)
    assert list(scores) == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "ROUGE_L", "CIDEr"]


def test_options_add_their_own_keys_to_the_json(files: list[str]) -> None:
    answer = json.loads(run(*files, "--json", "--bootstrap", "20", "--against", files[1], "--train", files[0]).stdout)
    assert {"intervals", "against", "diversity"} < set(answer)
    assert answer["against"]["CIDEr"]["p_value"] == 1
    assert answer["diversity"]["novel"] == pytest.approx(2 / 3)


def test_the_table_shows_scores_and_how_they_were_computed(files: list[str]) -> None:
    output = run(*files, "--bootstrap", "20").stdout
    for word in ("BLEU-4", "CIDEr", "PTB 3.4.1", "videos: 3", "references: 4", "vocabulary"):
        assert word in output
    cider = json.loads(run(*files, "--json").stdout)["CIDEr"]
    assert f"{100 * cider:.1f}" in output  # on the scale of every other table


def test_without_meteor_one_line_says_how_to_get_it(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.metrics.meteor_available", lambda: False)
    assert "watchword[meteor]" in run(*files, "--json").stderr


def test_scores_of_every_video_are_written(files: list[str], tmp_path: Path) -> None:
    run(*files, "--per-video", str(tmp_path / "out.json"))
    rows = json.loads((tmp_path / "out.json").read_text())
    assert list(rows) == ["v1", "v2", "v3"]
    assert rows["v2"]["ROUGE_L"] == 1
    run(*files, "--per-video", str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "video,Bleu_1,Bleu_2,Bleu_3,Bleu_4,ROUGE_L,CIDEr"
    with pytest.raises(WatchwordError, match="cannot write"):
        run(*files, "--per-video", str(tmp_path / "none" / "out.json"))


def test_a_video_that_is_named_like_a_formula_is_text_in_a_spreadsheet(tmp_path: Path) -> None:
    files = [written(tmp_path / "refs.json", {"=1+1": ["a dog"]}), written(tmp_path / "hyps.json", {"=1+1": "a dog"})]
    run(*files, "--per-video", str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("'=1+1,")


def test_missing_and_extra_videos_are_refused_unless_allowed(files: list[str], tmp_path: Path) -> None:
    some = written(tmp_path / "some.json", {"v1": "a man plays", "v9": "a"})
    with pytest.raises(WatchwordError, match=r"no caption for 'v2', 'v3'; no references for 'v9'"):
        run(files[0], some)
    assert "videos: 1" in run(files[0], some, "--allow-missing").stdout
    with pytest.raises(WatchwordError, match="paired test needs all"):
        run(*files, "--against", some, "--allow-missing")


def test_document_frequencies_come_from_training_captions_when_asked(files: list[str]) -> None:
    assert "document frequencies of references.json" in run(*files, "--train", files[0], "--train-frequencies").stdout
    with pytest.raises(WatchwordError, match="add --train"):
        run(*files, "--train-frequencies")


def test_a_mistake_is_one_line_and_status_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "watchword", "score", "none.json", "none.json"]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env={"PYTHONPATH": "src", "PATH": "", "WATCHWORD_CACHE": str(tmp_path)},
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.strip() == "watchword: cannot read none.json: No such file or directory"


def test_published_predictions_on_msvd_get_their_published_scores(tmp_path: Path) -> None:
    captions, predictions = GOLDENS / "msvd" / "captions.jsonl.gz", GOLDENS / "metrics" / "arctic_msvd.json.gz"
    if not predictions.exists():
        pytest.skip(f"golden values are not here: {predictions}")
    hypotheses = written(tmp_path / "test.json", json.loads(gzip.decompress(predictions.read_bytes()))["test"])
    scores = json.loads(run(str(captions), hypotheses, "--split", "test", "--json").stdout)
    assert scores["Bleu_4"] == pytest.approx(0.39718, abs=5e-6)
    assert scores["ROUGE_L"] == pytest.approx(0.62159, abs=5e-6)
    assert scores["CIDEr"] == pytest.approx(0.57528, abs=5e-6)
