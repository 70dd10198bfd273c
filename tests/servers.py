"""A server for tests, in a thread, with a fake captioner; and a client that can send malformed requests."""

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

from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.cli.serve import listen
from watchword.server.app import web_server
from watchword.server.auth import AccessPolicy
from watchword.server.caption_process import CaptionerInfo, CaptionUpdate
from watchword.server.schemas import Limits
from watchword.server.service import Service
from watchword.server.subprocesses import ProcessDied

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

    def upload(self, video: bytes | Path, name: str = "clip.mp4", quoted: bool = True, **headers: str) -> Answer:
        body = video.read_bytes() if isinstance(video, Path) else video
        named = {"X-Watchword-Name": quote(name, safe="") if quoted else name}
        return self.ask("POST", "/api/videos", body, {**named, **headers})

    def job(self, job: str) -> Any:
        return self.get(f"/api/jobs/{job}").json

    def described(self, video: bytes | Path, name: str = "clip.mp4") -> int:
        """Uploads a video and waits: its number."""
        answer = self.upload(video, name)
        assert answer.status == 202, answer.body
        done = self.wait_for(answer.json["job"], "done")
        return int(done["video"])

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


def said(text: str, confidence: float = 0.5) -> Caption:
    return Caption(tuple(Word(word, 0.5, {"appearance": 0.5}) for word in text.split()), confidence)


class FakeCaptionProcess:
    """Says of every video "a dog runs", as soon as it may; dies when it is stopped in the middle, as a child does."""

    def __init__(self, captioners: tuple[str, ...] = ("fake", "other")) -> None:
        self.captioners, self.chosen = captioners, list[str]()
        self.may_continue = threading.Event()
        self.may_continue.set()
        self.stopped = threading.Event()
        self.deaths: list[ProcessDied] = []  # that will come, one a video
        self.names: list[str] = []

    def info(self) -> CaptionerInfo:
        return CaptionerInfo("fake", "a hint", semantic_search=False, captioners=self.captioners)

    def describe(self, path: Path, name: str, seconds: float, captioner: str = "") -> Generator[CaptionUpdate]:
        self.stopped.clear()
        self.names.append(name)
        self.chosen.append(captioner)
        assert path.is_file()
        yield CaptionUpdate(seconds / 2, "a dog", 0.2)
        while not self.may_continue.wait(0.01):
            if self.stopped.is_set():
                raise ProcessDied("its decoder crashed (SIGKILL)", is_final=False)
        if self.deaths:
            raise self.deaths.pop(0)
        segments = (
            Segment(0.0, seconds / 2, (said("a dog runs", 0.7), said("a cat runs", 0.2))),
            Segment(seconds / 2, seconds, (said("a man <b>sleeps</b>", 0.3),)),
        )
        description = Description(Path(name), seconds, captioner or "fake", segments, ("one line of damage",))
        yield CaptionUpdate(seconds, "a dog runs", 0.7, description, {"version": 2, "video": name, "segments": []})

    def stop(self) -> None:
        self.stopped.set()


@contextmanager
def serving(service: Service, policy: AccessPolicy | None = None) -> Iterator[Client]:
    """A real server on a real port, for as long as the block."""
    with listen("127.0.0.1", 0) as listening, service:
        port = listening.getsockname()[1]
        server = web_server(service, policy or AccessPolicy.of("127.0.0.1", port, (), "unused"))
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


def fake_service(folder: Path, **limits: Any) -> tuple[Service, FakeCaptionProcess]:
    captioner = FakeCaptionProcess()
    service = Service(
        folder / "library.db", None, limits_of(**limits), captioner=lambda model, threads, lanes: captioner
    )  # type: ignore[arg-type, return-value]
    return service, captioner
