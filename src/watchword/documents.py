"""JSON and TOML of unknown origin: values, or a ValueError for any text that is not one."""

import json
import tomllib
from typing import Any

TOO_DEEP = "brackets are nested too deep"


def parse_json(text: str | bytes, **options: Any) -> Any:
    """As `json.loads`. A number of thousands of digits is a ValueError already."""
    try:
        return json.loads(text, **options)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error


def parse_toml(text: str) -> dict[str, Any]:
    """As `tomllib.loads`."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
