"""`watchword serve`: a page for films, on this machine."""

import os
import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._options import Model
from watchword.errors import WatchwordError


def serve(
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8000,
    library: Annotated[Path | None, typer.Option(help="The library's file; or WATCHWORD_LIBRARY.")] = None,
    model: Model = None,
    queue: Annotated[int, typer.Option(min=1, max=10_000, help="Films that may wait at once.")] = 16,
    largest: Annotated[float, typer.Option(min=0.001, help="Megabytes of a film, at most.")] = 2000.0,
    longest: Annotated[float, typer.Option(min=0.001, help="Hours of a film, at most.")] = 4.0,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which this machine is called too; asks for the token.")
    ] = None,
) -> None:
    """Open a page where films are dropped in, described, kept and found again.

    watchword serve

    watchword serve --host 0.0.0.0    for others too: they need the token that is printed (or set WATCHWORD_TOKEN)
    """
    from watchword.library import default_path
    from watchword.server.app import web_server
    from watchword.server.auth import Door
    from watchword.server.schemas import Limits
    from watchword.server.service import Service

    listening = listen(host, port)
    port = listening.getsockname()[1]
    token = os.environ.get("WATCHWORD_TOKEN") or secrets.token_urlsafe(24)
    door = Door.of(host, port, allow_host or (), token)
    limits = Limits(bytes=round(largest * 1e6), seconds=longest * 3600, queue=queue)
    with listening, Service(library or default_path(), model, limits) as service:
        name = socket.gethostname() if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host
        address = f"http://{name}:{port}/" + (f"?token={token}" if door.token else "")
        listening.listen(2048)  # whoever reads the line may come at once
        typer.echo(f"watchword: {address}   ({service.who.captioner}, {service.shelf.library.path}); Ctrl-C ends it")
        if service.who.hint:
            typer.echo(f"watchword: {service.who.hint}", err=True)
        web_server(service, door).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Taken before anything else is done: a port that is in use is one line, at once."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        why = error.strerror or error
        raise WatchwordError(f"cannot listen on {host}:{port}: {why}; try --port 0 for one that is free") from error
    return listening
