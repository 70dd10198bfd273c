"""What a user sets once: an environment variable, or else a key of the config file."""

import os
from pathlib import Path

import tomli_w
from platformdirs import user_config_path

from watchword.documents import parse_toml
from watchword.errors import WatchwordError

VARIABLES = {
    "data": "WATCHWORD_DATA",  # folder of the benchmarks
    "features": "WATCHWORD_FEATURES",  # folder of their feature stores
    "model": "WATCHWORD_MODEL",  # captioner that is used where none is named
    "offline": "WATCHWORD_OFFLINE",  # nothing is downloaded
}


def config_file() -> Path:
    return user_config_path("watchword") / "config.toml"


def preference(key: str) -> str:
    """`WATCHWORD_DATA` for `data`, else the key `data` of the config file, else an empty string."""
    return os.environ.get(VARIABLES[key]) or str(_configured(config_file()).get(key, ""))


def origin_of(key: str) -> str:
    """Where a preference comes from: the name of the variable, or the config file; empty where it is not set."""
    if os.environ.get(VARIABLES[key]):
        return VARIABLES[key]
    return str(config_file()) if preference(key) else ""


def config_with(key: str, value: str) -> str:
    """The config file with a key set, or without it where the value is empty; other lines stay as they are."""
    path = config_file()
    _configured(path)  # what cannot be read is not written over
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    others = [line for line in lines if line.partition("=")[0].strip() != key]
    own = [tomli_w.dumps({key: value}).rstrip("\n")] if value else []
    return "".join(f"{line}\n" for line in [*own, *others])


def is_offline() -> bool:
    """Whether downloads are forbidden: any value but 0, false and no counts."""
    return preference("offline").lower() not in ("", "0", "false", "no")


def _configured(path: Path) -> dict[str, object]:
    try:
        return parse_toml(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise WatchwordError(f"cannot read {path}: {error}") from error
