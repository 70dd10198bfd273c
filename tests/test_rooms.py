"""The layers of the package: a package imports only what stands below it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "watchword"

# From the bottom to the top. Packages of one layer do not import each other, but for research and cli: every research
# command is a command.
LAYERS = (
    {"errors", "types", "tensors", "documents"},
    {"config", "preferences", "atomic_io", "workers"},
    {"downloads", "text", "video", "layers", "decoding"},
    {"backbones", "models", "metrics", "precision"},
    {"features", "losses"},
    {"data", "lanes"},
    {"training"},
    {"captioning"},
    {"explain"},
    {"library"},
    {"server"},
    {"cli", "research"},
)
LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer}
WITHOUT_TORCH = {
    "errors",
    "documents",
    "types",
    "atomic_io",
    "downloads",
    "config",
    "preferences",
    "workers",
    "text",
    "video",
    "metrics",
    "explain",
    "library",
    "server",
}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Dotted names of every module that a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the whole name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


FILES = sorted(path for path in SOURCE.rglob("*.py") if package_of(path) not in {"__init__", "__main__"})


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_lower_layers(path: Path) -> None:
    package = package_of(path)
    assert package in LAYER_OF, f"{package} is new: give it a layer"
    for name in imports_of(path):
        root, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if root == "watchword" and other and other != package:
            below = LAYER_OF[other] < LAYER_OF[package] or {package, other} == {"cli", "research"}
            assert below, f"{path.name} of {package} must not import {name}"
        if package in WITHOUT_TORCH or path.relative_to(SOURCE).as_posix() == "features/store.py":
            assert root != "torch", f"{path.name} of {package} must not import torch"


def test_no_module_is_called_utils() -> None:
    vague = {"utils", "util", "common", "misc", "helpers"}
    assert not vague & {path.stem for path in SOURCE.rglob("*")}
