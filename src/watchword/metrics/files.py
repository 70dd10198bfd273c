"""References and hypotheses as people keep them, read into `{video: [captions]}` and `{video: caption}`.

References: `captions.jsonl` (one video a line), COCO annotations, `{id: [captions]}`. Hypotheses: COCO results
`[{"image_id": id, "caption": text}]`, `{id: text}`, JSON lines `{"video": id, "caption": text}`. Any may be gzipped.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from watchword.documents import parse_json
from watchword.errors import WatchwordError, did_you_mean
from watchword.metrics.index import mismatch


def read_references(path: Path, split: str | None = None) -> dict[str, list[str]]:
    """The references of every video; of one split where the file has several."""
    content = _read(path)
    if isinstance(content, dict) and "captions" in content and "video" in content:
        content = [content]  # JSON lines with one line
    if _has_splits(content):
        return _of_split(content, path, split)
    if split is not None:
        raise WatchwordError(f"{path} has no splits: leave --split out")
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(content, dict) and isinstance(content.get("annotations"), list):
        pairs = _pairs(content["annotations"], path)
    elif isinstance(content, list):
        pairs = _pairs(content, path)
    elif isinstance(content, dict):
        references = {video: _sentences(sentences, video, path) for video, sentences in content.items()}
        return _not_empty(references, path)
    else:
        raise WatchwordError(f"cannot read references from {path}: expected a list or an object, found {content!r:.40}")
    collected: dict[str, list[str]] = {}
    for video, sentence in pairs:
        collected.setdefault(_name(video, path), []).append(_text(sentence, video, path))
    return _not_empty(collected, path)


def read_training(path: Path) -> dict[str, list[str]]:
    """Captions to compare with: the training split where the file has splits, otherwise all."""
    content = _read(path)
    named = _has_splits(content) and any(row.get("split") == "train" for row in content)
    return read_references(path, "train" if named else None)


def read_hypotheses(path: Path) -> dict[str, str]:
    """One caption for each video. Two for one video are refused: which of them should count?"""
    content = _read(path)
    if isinstance(content, dict) and isinstance(content.get("predictions"), dict):
        content = content["predictions"]
    if isinstance(content, dict) and set(content) >= {"caption"} and ("video" in content or "image_id" in content):
        content = [content]  # JSON lines with one line
    if not isinstance(content, dict | list):
        raise WatchwordError(f"cannot read hypotheses from {path}: expected a list or an object, found {content!r:.40}")
    hypotheses: dict[str, str] = {}
    for video, sentence in content.items() if isinstance(content, dict) else _pairs(content, path):
        if isinstance(sentence, list):
            if len(sentence) != 1:
                raise WatchwordError(f"{path}: {len(sentence)} captions for video {video!r}, expected one")
            sentence = sentence[0]
        name = _name(video, path)
        if name in hypotheses:
            raise WatchwordError(f"{path}: two captions for video {name!r}, expected one")
        hypotheses[name] = _text(sentence, video, path)
    if not hypotheses:
        raise WatchwordError(f"{path} holds no captions")
    return hypotheses


def match(
    references: Mapping[str, list[str]], hypotheses: Mapping[str, str], *, allow_missing: bool = False
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Both sides for the same videos, in the order of the references; videos of one side only are refused or left."""
    missing = [video for video in references if video not in hypotheses]
    extra = [video for video in hypotheses if video not in references]
    both = [video for video in references if video in hypotheses]
    if not both:
        raise WatchwordError(f"no video is in both files: {mismatch(missing, extra)}")
    if (missing or extra) and not allow_missing:
        raise WatchwordError(f"{mismatch(missing, extra)}; to score only the {len(both)} of both: --allow-missing")
    return {video: references[video] for video in both}, {video: hypotheses[video] for video in both}


def _read(path: Path) -> Any:
    """The content of a JSON file, or the list of lines of a JSON lines file."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error) as error:
        raise WatchwordError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except UnicodeDecodeError as error:
        raise WatchwordError(f"cannot read {path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    try:
        return parse_json(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as whole:  # not one document; JSON lines, maybe
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = []
        for number, line in lines:
            try:
                rows.append(parse_json(line, object_pairs_hook=_without_repeats))
            except json.JSONDecodeError as error:
                # a broken first line of many means a broken document, not a broken line
                where = f"line {number}: {error.msg}" if rows else f"line {whole.lineno}: {whole.msg}"
                raise WatchwordError(f"cannot read {path}: not JSON, {where}") from error
            except _RepeatedError as error:
                raise WatchwordError(f"{path}: video {error.args[0]!r} stands there twice in line {number}") from error
            except ValueError as error:
                raise WatchwordError(f"cannot read {path}: line {number}: {str(error).split(';')[0]}") from error
        if not rows:
            raise WatchwordError(f"cannot read {path}: it is empty") from whole
        return rows
    except _RepeatedError as error:
        raise WatchwordError(f"{path}: {error.args[0]!r} stands there twice") from error
    except ValueError as error:  # such as a number of thousands of digits
        raise WatchwordError(f"cannot read {path}: {str(error).split(';')[0]}") from error


class _RepeatedError(Exception):
    """The same key twice in one object: Python would silently keep the last."""


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        raise _RepeatedError(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _pairs(rows: list[Any], path: Path) -> Iterator[tuple[Any, Any]]:
    for number, row in enumerate(rows, 1):
        video = row.get("video", row.get("image_id", row.get("video_id"))) if isinstance(row, dict) else None
        if video is None or "caption" not in row:
            raise WatchwordError(
                f"{path}: entry {number} is {row!r:.60}, expected an object with video (or image_id) and caption"
            )
        yield video, row["caption"]


def _has_splits(content: Any) -> bool:
    """Whether it is our own format, one object a video."""
    return (
        bool(content)
        and isinstance(content, list)
        and all(isinstance(row, dict) and "captions" in row for row in content)
    )


def _of_split(rows: list[dict[str, Any]], path: Path, split: str | None) -> dict[str, list[str]]:
    splits = {str(row["split"]) for row in rows if "split" in row}
    if split is None and len(splits) > 1:
        raise WatchwordError(f"{path} holds the splits {', '.join(sorted(splits))}: choose one with --split")
    if split is not None and split not in splits:
        raise WatchwordError(f"{path} has no split {split!r}{did_you_mean(split, splits)}")
    references: dict[str, list[str]] = {}
    for row in rows:
        if split is None or row.get("split") == split:
            video = _name(row.get("video"), path)
            if video in references:
                raise WatchwordError(f"{path}: video {video!r} stands there twice")
            references[video] = _sentences(row["captions"], video, path)
    return _not_empty(references, path)


def _sentences(sentences: Any, video: str, path: Path) -> list[str]:
    if not isinstance(sentences, list) or not sentences:
        raise WatchwordError(f"{path}: video {video!r} has {sentences!r:.40}, expected a list of captions")
    return [
        _text(sentence.get("caption") if isinstance(sentence, dict) else sentence, video, path)
        for sentence in sentences
    ]


def _text(sentence: Any, video: Any, path: Path) -> str:
    if not isinstance(sentence, str):
        raise WatchwordError(f"{path}: the caption of video {video!r} is {sentence!r:.40}, expected text")
    return sentence


def _name(video: Any, path: Path) -> str:
    if isinstance(video, bool) or not isinstance(video, str | int):
        raise WatchwordError(f"{path}: a video is named {video!r:.40}, expected text or a whole number")
    return str(video)


def _not_empty(references: dict[str, list[str]], path: Path) -> dict[str, list[str]]:
    if not references:
        raise WatchwordError(f"{path} holds no references")
    return references
