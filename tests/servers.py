"""A server for tests, in a thread, with a teller that does as it is told; and a client that sends what none would."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from watchword.captioning.description import Description, Sentence, Shot, Word
from watchword.cli.serve import listen
from watchword.server.app import web_server
from watchword.server.auth import Door
from watchword.server.caption_process import Greeting, Told
from watchword.server.schemas import Limits
from watchword.server.service import Service
from watchword.server.subprocesses import ChildDied

WAIT_SECONDS = 120.0  # of a busy machine


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """One clear line, and nothing else."""
        assert set(self.json) == {"error"}, self.body
        assert "\n" not in self.json["error"]
        return str(self.json["error"])


@dataclass
class Client:
    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 60
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def upload(self, film: bytes | Path, name: str = "clip.mp4", quoted: bool = True, **headers: str) -> Answer:
        body = film.read_bytes() if isinstance(film, Path) else film
        named = {"X-Watchword-Name": quote(name, safe="") if quoted else name}
        return self.ask("POST", "/api/films", body, {**named, **headers})

    def job(self, job: str) -> Any:
        return self.get(f"/api/jobs/{job}").json

    def described(self, film: bytes | Path, name: str = "clip.mp4") -> int:
        """Uploads a film and waits: its number."""
        answer = self.upload(film, name)
        assert answer.status == 202, answer.body
        done = self.wait_for(answer.json["job"], "done")
        return int(done["film"])

    def wait_for(self, job: str, *states: str) -> Any:
        wait(lambda: self.job(job)["state"] in {*states, "done", "failed", "cancelled"})
        found = self.job(job)
        assert found["state"] in states, found
        return found

    def raw(self, sent: bytes) -> bytes:
        """Bytes on the line, and what comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as line:
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: line.recv(65536), b""))


def wait(until: Any, seconds: float = WAIT_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def said(text: str, confidence: float = 0.5) -> Sentence:
    return Sentence(tuple(Word(word, 0.5, {"appearance": 0.5}) for word in text.split()), confidence)


class FakeTeller:
    """Says of every film "a dog runs", as soon as it may; dies when it is stopped in the middle, as a child does."""

    def __init__(self) -> None:
        self.may_tell = threading.Event()
        self.may_tell.set()
        self.stopped = threading.Event()
        self.deaths: list[ChildDied] = []    # that will come, one a film
        self.told: list[str] = []

    def greet(self) -> Greeting:
        return Greeting("fake", "a hint", meaning=False)

    def tell(self, path: Path, name: str, seconds: float) -> Generator[Told]:
        self.stopped.clear()
        self.told.append(name)
        assert path.is_file()
        yield Told(seconds / 2, "a dog")
        while not self.may_tell.wait(0.01):
            if self.stopped.is_set():
                raise ChildDied("its decoder crashed (SIGKILL)", is_final=False)
        if self.deaths:
            raise self.deaths.pop(0)
        shots = (
            Shot(0.0, seconds / 2, (said("a dog runs", 0.7), said("a cat runs", 0.2))),
            Shot(seconds / 2, seconds, (said("a man <b>sleeps</b>", 0.3),)),
        )
        description = Description(Path(name), seconds, "fake", shots, ("one line of damage",))
        yield Told(seconds, "a dog runs", description, {"version": 1, "film": name, "shots": []})

    def stop(self) -> None:
        self.stopped.set()


@contextmanager
def serving(service: Service, door: Door | None = None) -> Iterator[Client]:
    """A real server on a real port, for as long as the block."""
    with listen("127.0.0.1", 0) as listening, service:
        port = listening.getsockname()[1]
        server = web_server(service, door or Door.of("127.0.0.1", port, (), "unused"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            wait(lambda: server.started)
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join()


def limits_of(**limits: Any) -> Limits:
    return Limits(**{"bytes": 4_000_000, "seconds": 60, "queue": 3} | limits)


def fake_service(folder: Path, **limits: Any) -> tuple[Service, FakeTeller]:
    service = Service(folder / "library.db", None, limits_of(**limits))
    teller = FakeTeller()
    service.teller = service.worker.teller = teller  # type: ignore[assignment]
    return service, teller
