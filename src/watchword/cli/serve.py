"""`watchword serve`: the web page and its API."""

import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Language, Model, Offline, ScreenText, Sounds, Speech, SpeechModel, lane_options
from watchword.errors import WatchwordError


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on; other machines need the token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    library: Annotated[Path | None, typer.Option(help="The library's file; default: WATCHWORD_LIBRARY.")] = None,
    model: Model = None,
    offline: Offline = False,
    queue: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum length of the queue.")] = 16,
    max_megabytes: Annotated[float, typer.Option(min=0.001, help="Largest accepted upload.")] = 2000.0,
    max_hours: Annotated[float, typer.Option(min=0.001, help="Longest accepted video.")] = 4.0,
    describers: Annotated[int, typer.Option(min=1, max=64, help="Videos that are captioned at the same time.")] = 1,
    allow_host: Annotated[list[str] | None, typer.Option(help="Another name of this machine; needs the token.")] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="Pages of this origin may use the API, such as https://app.example.")
    ] = None,
    speech: Speech = False,
    text: ScreenText = False,
    sounds: Sounds = False,
    speech_model: SpeechModel = "",
    language: Language = "",
) -> None:
    """Serve a web page to upload, caption and search videos.

    watchword serve

    watchword serve --host 0.0.0.0    for other machines; they need the printed token (or set WATCHWORD_TOKEN)
    """
    from watchword.library import default_path
    from watchword.server.app import web_server
    from watchword.server.auth import AccessPolicy
    from watchword.server.schemas import Limits
    from watchword.server.service import Service

    lanes = lane_options(speech, text, sounds, speech_model, language)
    listening = listen(host, port)
    port = listening.getsockname()[1]
    token = os.environ.get("WATCHWORD_TOKEN") or secrets.token_urlsafe(24)
    policy = AccessPolicy.of(host, port, allow_host or (), token, allow_origin or ())
    if model is None:
        fetch_default()
    limits = Limits(bytes=round(max_megabytes * 1e6), seconds=max_hours * 3600, queue=queue)
    with listening, Service(library or default_path(), model, limits, describers, lanes) as service:
        name = socket.gethostname() if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
        address = f"http://{name}:{port}/" + (f"?token={token}" if policy.token else "")
        listening.listen(2048)  # the address works as soon as it is printed
        typer.echo(
            f"watchword: {address}   ({service.info.captioner}, {service.storage.library.path}); Ctrl-C stops it"
        )
        if service.info.hint:
            typer.echo(f"watchword: {service.info.hint}", err=True)
        web_server(service, policy).run(sockets=[listening])


def fetch_default() -> None:
    """Downloads the backbone of the default captioner, with a line and a bar: the caption process may write no file.

    In a process of its own, because the server loads no torch.
    """
    from watchword.captioning.bundle import DEFAULT, find_shipped
    from watchword.downloads import cache_folder
    from watchword.preferences import is_offline, preference

    if preference("model") or is_offline():
        return
    backbones = [settings["backbone"] for settings in find_shipped(DEFAULT).settings().values()]
    if not all((cache_folder("downloads") / name).is_dir() for name in backbones):
        subprocess.run([sys.executable, "-P", "-c", "from watchword.cli.serve import _fetch; _fetch()"], check=False)


def _fetch() -> None:
    from watchword.captioning.bundle import choose_bundle
    from watchword.cli._progress import download_bar

    with download_bar() as report:
        choose_bundle(report)


def listen(host: str, port: int) -> socket.socket:
    """First of all: a port that is in use is reported at once."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        why = error.strerror or error
        raise WatchwordError(f"cannot listen on {host}:{port}: {why}; try --port 0 for one that is free") from error
    return listening
