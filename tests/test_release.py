"""What a release says about itself agrees: one version, a changelog, a citation file, types, a site."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import watchword

ROOT = Path(__file__).parents[1]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_the_version_is_written_once() -> None:
    assert run("watchword", "--version").stdout == f"watchword {watchword.__version__}\n"
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'dynamic = ["version"]' in project
    assert 'path = "src/watchword/__init__.py"' in project


def test_the_citation_file_names_the_version() -> None:
    found = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert found
    assert found[1] == watchword.__version__


def test_the_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_type_checkers_find_the_types() -> None:
    assert (ROOT / "src" / "watchword" / "py.typed").exists()


def test_the_public_workflow_runs_what_ci_runs() -> None:
    assert "run: .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the site needs pip install '.[docs]'")
def test_the_site_builds_without_a_dead_link(tmp_path: Path) -> None:
    done = run("mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    home = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert not re.findall(r'<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)="https?:', home), "another host"
