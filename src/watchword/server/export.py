"""Descriptions of many videos as one download: a document, or an archive with a file for each video."""

import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Annotated

from fastapi import FastAPI, Query
from fastapi.responses import Response, StreamingResponse
from pydantic import Field

from watchword.captioning.description import Description
from watchword.captioning.writers import WRITERS, Format
from watchword.library import VideoRow
from watchword.server.parameters import row_of
from watchword.server.schemas import errors
from watchword.server.service import Service

Listed = Annotated[int, Field(ge=1, le=2**62)]  # the number of a video; SQLite has 64 bits
DOCUMENTS: dict[Format, str] = {"text": "text/plain", "json": "application/json", "csv": "text/csv"}  # of many videos
PAGE = 200  # rows of a query
PIECE = 1 << 18  # bytes


def add_export(app: FastAPI, service: Service) -> None:
    storage = service.storage

    def rows(videos: Sequence[int]) -> Iterator[VideoRow]:
        if videos:
            yield from (row_of(service, video) for video in videos)
            return
        for offset in range(0, storage.library.count(), PAGE):
            yield from storage.library.videos(limit=PAGE, offset=offset)

    kinds: dict[str, dict[str, str]] = {kind: {} for kind in (*DOCUMENTS.values(), "application/zip")}

    @app.get(
        "/api/export",
        tags=["files"],
        response_class=Response,
        responses={200: {"content": kinds}, **errors(404)},
    )
    def export(
        format: Format = "json",
        video: Annotated[list[Listed], Query(max_length=1000, description="Numbers; all videos without any.")] = [],  # noqa: B006
    ) -> Response:
        """The descriptions of several videos: text, JSON or CSV as one document, subtitles as a zip archive."""
        ending, write = WRITERS[format]
        if format in DOCUMENTS:
            text = write([storage.description(row) for row in rows(video)])
            headers = {"content-disposition": f'attachment; filename="watchword{ending}"'}
            return Response(text.encode(), media_type=DOCUMENTS[format], headers=headers)
        archive = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is sent
        _write_archive(archive, [(row.name, storage.description(row)) for row in rows(video)], format)
        headers = {"content-disposition": f'attachment; filename="watchword-{format}.zip"'}
        return StreamingResponse(_pieces(archive), media_type="application/zip", headers=headers)


def _write_archive(file: IO[bytes], descriptions: Sequence[tuple[str, Description]], form: Format) -> None:
    ending, write = WRITERS[form]
    taken: set[str] = set()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, description in descriptions:
            path = free_path(name, ending, taken)
            taken.add(path.casefold())
            archive.writestr(path, write([description]))
    file.seek(0)


def free_path(name: str, ending: str, taken: set[str]) -> str:
    """A path within the archive: of no other video, and never above its folder."""
    parts = [part for part in PurePosixPath(name.replace("\\", "/")).parts if part.strip("./ ")] or ["video"]
    stem = str(PurePosixPath(*parts[:-1], Path(parts[-1]).stem))
    number, path = 1, f"{stem}{ending}"
    while path.casefold() in taken:
        number += 1
        path = f"{stem} ({number}){ending}"
    return path


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(PIECE), b"")
