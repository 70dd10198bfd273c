"""`watchword serve`: over real HTTP, with a captioner that says what it is told; the real one is at the end."""

import http.client
import io
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.captioners import write_captioner
from tests.conftest import SHARED
from tests.servers import Client, fake_service, limits_of, said, serving, wait
from tests.videos import numbered, write_video
from watchword.captioning.description import Description, Segment
from watchword.errors import WatchwordError
from watchword.explain.attention import Explanation
from watchword.lanes import LANES
from watchword.library import Library
from watchword.server import app as server_module
from watchword.server import storage as storage_module
from watchword.server.app import attachment
from watchword.server.auth import AccessPolicy
from watchword.server.jobs import RENAMED, TRIES, Jobs
from watchword.server.probe_pool import ProbePool
from watchword.server.service import Service
from watchword.server.storage import clean_name
from watchword.server.subprocesses import ProcessDied

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A second of numbered pictures."""
    path = write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", [numbered(index) for index in range(25)])
    return path.read_bytes()


def another(video: bytes, number: int) -> bytes:
    """The same pictures in a file of other bytes: an MP4 may end in free space."""
    return video + (8 + 4).to_bytes(4, "big") + b"free" + number.to_bytes(4, "big")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Service]]:
    """One server for tests that leave it as they found it, or do not mind."""
    service, _ = fake_service(tmp_path_factory.mktemp("shared"), queue=50)
    with serving(service) as client:
        yield client, service


@pytest.fixture
def client(shared: tuple[Client, Service]) -> Client:
    return shared[0]


def files(service: Service) -> list[Path]:
    return [path for folder in (service.storage.incoming, service.storage.videos) for path in folder.iterdir()]


# --- the way of a video ---------------------------------------------------------------------------------------------


def test_a_video_is_uploaded_described_shown_searched_and_deleted(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        about = client.get("/api/about").json
        assert about["captioner"] == "fake"
        assert about["limits"] == {"bytes": 4_000_000, "seconds": 60, "queue": 3}
        number = client.described(video, "beach.mp4")

        (row,) = client.get("/api/videos").json["videos"]
        assert {key: row[key] for key in ("id", "name", "caption", "confidence", "segments")} == {
            "id": number,
            "name": "beach.mp4",
            "caption": "a dog runs",
            "confidence": 0.7,
            "segments": 2,
        }
        shown = client.get(f"/api/videos/{number}").json
        assert shown["warnings"] == ["one line of damage"]
        assert shown["segments"][0]["alternatives"] == [{"caption": "a cat runs", "confidence": 0.2}]
        assert shown["segments"][0]["words"][1] == {"word": "dog", "probability": 0.5, "seconds": {"appearance": 0.5}}
        assert client.get(f"/api/videos/{number}/attention").json["version"] == 2
        assert client.get(f"/api/videos/{number}/file").body == video

        found = client.get("/api/search?q=running").json
        assert found["total"] == 1
        assert (found["hits"][0]["video"], found["hits"][0]["start"]) == (number, 0.0)
        assert ["runs", True] in found["hits"][0]["pieces"]

        assert client.ask("DELETE", f"/api/videos/{number}").status == 204
        for rest in ("", "/file", "/attention", "/thumbnail", "/description.json"):
            assert client.get(f"/api/videos/{number}{rest}").status == 404
        assert client.get("/api/videos").json == {"videos": [], "total": 0}
        assert client.get("/api/jobs").json == {"jobs": []}
        assert client.get("/api/search?q=running").json["total"] == 0
        assert files(service) == []
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"beach" not in everything
    assert b"a dog runs" not in everything


def test_every_format_of_the_writers_can_be_downloaded(client: Client, video: bytes) -> None:
    number = client.described(video, "Fête <1>.mp4")
    begins = {
        "descriptions.vtt": "WEBVTT",
        "chapters.vtt": "WEBVTT",
        "subtitles.srt": "1\n00:00:00,000 --> 00:00:00,500",
        "description.json": "{",
        "description.csv": "video,start,end",
        "description.txt": "0:00:00 - ",
    }
    for name, begin in begins.items():
        shown = client.get(f"/api/videos/{number}/{name}")
        assert shown.status == 200
        assert shown.body.decode().startswith(begin)
        assert "content-disposition" not in shown.headers
        saved = client.get(f"/api/videos/{number}/{name}?download=1")
        assert saved.headers["content-disposition"].startswith('attachment; filename="F_te _1_.')
        assert "filename*=UTF-8''F%C3%AAte%20%3C1%3E." in saved.headers["content-disposition"]
    document = client.get(f"/api/videos/{number}/description.json").json
    assert document["videos"][0]["video"] == "Fête <1>.mp4"  # and not where it lies
    assert client.get(f"/api/videos/{number}/descriptions.exe").status == 404


def test_a_video_is_sent_in_parts_as_players_ask_for_it(client: Client, video: bytes) -> None:
    number = client.described(video)
    path = f"/api/videos/{number}/file"
    whole = client.get(path)
    assert (whole.headers["content-type"], whole.headers["accept-ranges"]) == ("video/mp4", "bytes")
    part = client.get(path, Range="bytes=10-19")
    assert (part.status, part.body) == (206, video[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(video)}"
    assert client.get(path, Range="bytes=-5").body == video[-5:]
    beyond = client.get(path, Range=f"bytes={len(video)}-")
    assert (beyond.status, beyond.error) == (416, "the file does not have this range")
    assert beyond.headers["content-range"] == f"bytes */{len(video)}"
    assert client.get(path, Range="bytes=x").error
    head = client.ask("HEAD", path)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(video)))
    assert client.ask("HEAD", "/api/videos").status == 200
    many = ",".join(f"{index}-{index}" for index in range(0, 4000, 2))
    assert client.get(path, Range=f"bytes={many}").status in {200, 206, 400, 416}


def test_a_wrong_method_is_told_all_that_the_path_has(client: Client) -> None:
    refused = client.ask("PATCH", "/api/videos/1")
    assert (refused.status, refused.headers["allow"]) == (405, "DELETE, GET, HEAD")
    assert client.ask("PATCH", "/api/videos").headers["allow"] == "GET, HEAD, POST"


def test_pictures_of_a_video_are_small_and_of_the_asked_time(client: Client, tmp_path: Path) -> None:
    pictures = [np.full((1080, 1920, 3), shade, np.uint8) for shade in (0, 0, 255, 255)]
    path = write_video(tmp_path / "wide.mp4", pictures, [0, 500, 1000, 1500])
    number = client.described(path)
    dark, light = (_picture(client, f"/api/videos/{number}/frame?seconds={seconds}") for seconds in (0.2, 1.4))
    assert dark.size == light.size == (960, 540)
    assert np.asarray(dark).mean() < 10
    assert np.asarray(light).mean() > 245
    assert _picture(client, f"/api/videos/{number}/thumbnail").size == (320, 180)
    assert np.asarray(_picture(client, f"/api/videos/{number}/frame?seconds=9999")).mean() > 245
    for wrong in ("-1", "nan", "inf", "1e400", "soon", ""):
        assert client.get(f"/api/videos/{number}/frame?seconds={wrong}").status == 422


def _picture(client: Client, path: str) -> Image.Image:
    answer = client.get(path)
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    return Image.open(io.BytesIO(answer.body))


def test_a_job_tells_how_far_it_is_until_it_is_done(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path)
    captioner.may_continue.clear()
    with serving(service) as client:
        job = client.upload(video).json["job"]
        wait(lambda: client.job(job)["done_seconds"] > 0)
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as line:
            head = f"GET /api/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            line.sendall(head.encode())
            first = line.recv(65536)
            while b"\ndata:" not in first:
                first += line.recv(65536)
            captioner.may_continue.set()
            rest = first + b"".join(iter(lambda: line.recv(65536), b""))
        assert b"content-type: text/event-stream" in rest
        events = [json.loads(event) for event in re.findall(rb"(?m)^data: (.*)$", rest)]
        assert events[0] | {"id": 0} == {
            "id": 0,
            "name": "clip.mp4",
            "state": "working",
            "done_seconds": 0.5,
            "seconds": 1.0,
            "caption_so_far": "a dog",
            "unsure": True,
            "video": None,
            "error": None,
            "captioner": "",
        }
        last = events[-1]
        assert (last["state"], last["caption_so_far"], last["unsure"]) == ("done", "a dog runs", False)
        assert client.get("/api/jobs/nosuch/events").status == 404


def test_the_same_video_twice_is_kept_once(client: Client, shared: tuple[Client, Service], video: bytes) -> None:
    first, second = client.described(video, "one.mp4"), client.described(video, "two.mp4")
    assert first == second
    assert client.get(f"/api/videos/{first}").json["name"] == "two.mp4"
    wait(lambda: not list(shared[1].storage.incoming.iterdir()))


def test_videos_of_watchword_library_add_are_shown_from_where_they_lie_and_stay_there(
    shared: tuple[Client, Service], video: bytes, tmp_path: Path
) -> None:
    client, service = shared
    path = tmp_path / "own.mp4"
    path.write_bytes(video)
    description = Description(path, 1.0, "fake", (Segment(0.0, 1.0, (said("a bird sings"),)),))
    add = service.storage.library.add
    number = add(description, name="own.mp4", identity="own", source=path, explanation=None)
    assert client.get(f"/api/videos/{number}/file").body == video
    assert str(tmp_path) not in client.get(f"/api/videos/{number}/description.json").body.decode()
    assert client.get(f"/api/videos/{number}/attention").status == 404
    assert client.ask("DELETE", f"/api/videos/{number}").status == 204
    assert path.exists()

    secret = tmp_path / "passwd"
    secret.write_text("root")
    number = add(description, name="passwd", identity="odd", source=secret, explanation=None)  # somebody's odd library
    assert client.get(f"/api/videos/{number}/file").status == 404
    gone = add(description, name="gone.mp4", identity="gone", source=tmp_path / "gone.mp4", explanation=None)
    assert client.get(f"/api/videos/{gone}/thumbnail").status == 404
    assert client.get(f"/api/videos/{gone}").json["has_file"] is False


def test_a_video_can_be_deleted_while_somebody_watches_it(client: Client, video: bytes) -> None:
    long = video + (8 + 3_000_000).to_bytes(4, "big") + b"free" + b"\0" * 3_000_000
    number = client.described(long, "long.mp4")
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # the rest is still to be sent
        line.sendall(f"GET /api/videos/{number}/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while not got.partition(b"\r\n\r\n")[2]:  # the header comes before the file is opened
            got += line.recv(1000) or pytest.fail("nothing was sent")
        assert client.ask("DELETE", f"/api/videos/{number}").status == 204
        assert client.get(f"/api/videos/{number}/file").status == 404
        got += b"".join(iter(lambda: line.recv(1 << 20), b""))
    assert got.partition(b"\r\n\r\n")[2] == long


# --- what people and programs send ---------------------------------------------------------------------------------

HOSTILE = {
    "../../../../etc/passwd": "passwd",
    "..\\..\\windows\\system.ini": "system.ini",
    "/etc/cron.d/x.mp4": "x.mp4",
    "<script>alert(1)</script>": "script>",
    "<img src=x onerror=alert(1)>.mp4": "<img src=x onerror=alert(1)>.mp4",
    "a\r\nSet-Cookie: a=b\r\n\r\n<html>.mp4": "a Set-Cookie: a=b <html>.mp4",
    "a\0b.mp4": "a b.mp4",
    "gpj.\u202e4pm": "gpj. 4pm",
    "..": "video",
    " ": "video",
    "'; DROP TABLE videos; --.mp4": "'; DROP TABLE videos; --.mp4",
    '"quoted".mp4': '"quoted".mp4',
    "%2e%2e%2fx": "%2e%2e%2fx",
    "日本語 🎬.mp4": "日本語 🎬.mp4",
    "=cmd|' /C calc'!A0.mp4": "C calc'!A0.mp4",
}


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name))
def test_a_hostile_name_is_only_text(name: str, shared: tuple[Client, Service], video: bytes) -> None:
    client, service = shared
    number = client.described(video, name)
    assert client.get(f"/api/videos/{number}").json["name"] == HOSTILE[name]
    (stored,) = {path.name for path in files(service)} & {client_file(service, number)}
    assert re.fullmatch(r"[0-9a-f]{64}\.mp4", stored)
    saved = client.get(f"/api/videos/{number}/description.txt?download=1")
    assert saved.status == 200
    assert "set-cookie" not in saved.headers
    assert re.fullmatch(
        r'attachment; filename="[\w ._()-]*"; filename\*=UTF-8\'\'[\w.%~-]*', saved.headers["content-disposition"]
    )


def client_file(service: Service, number: int) -> str:
    row = service.storage.library.video(number)
    assert row is not None
    assert row.source is not None
    return row.source.name


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("%ff%fe.mp4", "\ufffd\ufffd.mp4"),
        ("%", "%"),
        ("%zz", "%zz"),
        ("%ed%a0%80", "\ufffd" * 3),
        ("a" * 10_000, "a" * 200),
        ("b" * 10_000 + ".mp4", "b" * 196 + ".mp4"),
        ("%F0%9F%8E%AC" * 3000, "🎬" * 200),
    ],
)
def test_a_name_of_any_bytes_and_length_becomes_a_name(header: str, name: str, client: Client, video: bytes) -> None:
    assert clean_name(header) == name
    answer = client.upload(video, header, quoted=False)
    assert answer.status == 202
    assert client.job(answer.json["job"])["name"] == name


def test_a_refused_upload_does_not_hold_up_its_connection(client: Client, video: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    for name, body in (("x", b"text"), (None, video), ("x", b"text"), ("x", b""), (None, b"")):
        connection.request("POST", "/api/videos", body, {"X-Watchword-Name": name} if name else {})
        answer = connection.getresponse()
        assert answer.status == 422
        answer.read()
    connection.request("GET", "/api/about")
    assert connection.getresponse().status == 200
    connection.close()


def test_an_upload_without_a_name_is_refused(client: Client, video: bytes) -> None:
    assert client.ask("POST", "/api/videos", video).status == 422
    assert client.upload(video, "").status == 422


def png(width: int, height: int) -> bytes:
    """A picture of nothing, however large, in few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([16, 6, 0, 0, 0])  # 8 bytes a pixel
    packer = zlib.compressobj(9)
    row = bytes(1 + 8 * width)
    content = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def sized(picture: bytes, width: int, height: int) -> bytes:
    header = b"IHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + picture[24:29]
    return picture[:12] + header + zlib.crc32(header).to_bytes(4, "big") + picture[33:]


NO_VIDEOS: dict[str, Any] = {
    "empty": lambda video: b"",
    "text": lambda video: b"hello " * 1000,
    "html": lambda video: b"<html><script>alert(1)</script></html>",
    "noise": lambda video: np.random.default_rng(0).bytes(20_000),
    "half": lambda video: video[: len(video) // 2],
    "playlist": lambda video: b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n",
    "list of files": lambda video: b"ffconcat version 1.0\nfile /etc/passwd\n",
    "svg": lambda video: b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "zip": lambda video: b"PK\x03\x04" + bytes(1000),
    "a picture that says it has ten billion pixels": lambda video: sized(png(8, 8), 100_000, 100_000),
}


@pytest.mark.parametrize("kind", NO_VIDEOS)
def test_what_is_no_video_is_one_clear_line_and_leaves_nothing(
    kind: str, shared: tuple[Client, Service], video: bytes
) -> None:
    client, service = shared
    before = len(client.get("/api/jobs").json["jobs"])
    answer = client.upload(NO_VIDEOS[kind](video), "holiday.mp4")
    assert answer.status == 422
    assert answer.error.startswith("cannot read holiday.mp4: ")
    assert str(service.storage.incoming) not in answer.error
    assert len(client.get("/api/jobs").json["jobs"]) == before


def test_a_picture_that_unpacks_to_more_than_the_childs_memory_is_refused(
    shared: tuple[Client, Service], video: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, service = shared
    bomb = png(4_000, 4_000)
    assert len(bomb) < 200_000
    probes = ProbePool(1, memory_bytes=64 << 20)
    monkeypatch.setattr(service, "probes", probes)
    try:
        answer = client.upload(bomb, "bomb.png")
        assert answer.status == 422
        assert answer.error.startswith("cannot read bomb.png: ")
        assert client.upload(video).status == 202
    finally:
        probes.stop()


@pytest.mark.parametrize("name", ["CORRUPT_msrvtt_video1696.mp4", "result.webm"])
def test_a_damaged_video_of_the_shared_data_is_one_clear_line(name: str, client: Client) -> None:
    path = SHARED / "decode" / name
    if not path.exists():
        pytest.skip("no shared data here")
    answer = client.upload(path, name)
    assert answer.status in {202, 422}
    if answer.status == 422:
        assert answer.error.startswith(f"cannot read {name}: ")


def test_a_video_that_is_too_large_is_refused_before_and_while_it_comes(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path, bytes=len(video) - 1)
    with serving(service) as client:
        early = client.raw(
            b"POST /api/videos HTTP/1.1\r\nHost: localhost\r\nX-Watchword-Name: a\r\n"
            b"Content-Length: 99999999999\r\n\r\n"
        )
        assert early.startswith(b"HTTP/1.1 413 ")
        told = client.upload(video)
        assert (told.status, "more than" in told.error) == (413, True)
        chunks = iter([video[:1000], video[1000:]])  # no length is told
        assert client.ask("POST", "/api/videos", chunks, {"X-Watchword-Name": "a"}).status == 413
        assert files(service) == []


def test_a_video_that_is_too_long_is_refused(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path, seconds=0.5)
    with serving(service) as client:
        answer = client.upload(video)
        assert (answer.status, "longer than" in answer.error) == (413, True)
        assert files(service) == []


def test_a_full_disk_is_told_and_leaves_nothing(
    video: bytes, shared: tuple[Client, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, service = shared
    before = files(service)
    with monkeypatch.context() as patch:
        patch.setattr(storage_module, "RESERVE", 1 << 60)
        answer = client.upload(video)
        assert (answer.status, "disk is full" in answer.error) == (507, True)

    def full(file: Any, piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage_module, "_write_all", full)
        assert client.upload(video).status == 507
    assert files(service) == before
    assert client.upload(video).status == 202


def test_an_upload_that_breaks_off_or_stalls_leaves_nothing(
    video: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = fake_service(tmp_path)
    head = (
        f"POST /api/videos HTTP/1.1\r\nHost: localhost\r\nX-Watchword-Name: a\r\nContent-Length: {len(video)}\r\n\r\n"
    )
    with serving(service) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as line:
            line.sendall(head.encode() + video[:1000])
            wait(lambda: bool(files(service)))
        wait(lambda: not files(service))
        monkeypatch.setattr(storage_module, "STALL_SECONDS", 0.2)
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as line:
            line.sendall(head.encode() + video[:1000])
            assert line.recv(65536).startswith(b"HTTP/1.1 408 ")
        monkeypatch.setattr(storage_module, "STALL_SECONDS", 60.0)
        monkeypatch.setattr(storage_module, "SLOW_SECONDS", 0.0)  # a drop at a time
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as line:
            line.sendall(head.encode() + video[:10])
            time.sleep(0.1)
            line.sendall(video[10:11])
            answer = b"".join(iter(lambda: line.recv(65536), b""))
            assert b"less than 1000 bytes a second" in answer
        assert files(service) == []
        assert service.storage.jobs.coming == 0


@pytest.mark.parametrize(
    "path",
    [
        "/api/videos/0",
        "/api/videos/-1",
        "/api/videos/99999999999999999999999",
        "/api/videos/one",
        "/api/videos?limit=0",
        "/api/videos?limit=1000000",
        "/api/videos?offset=-1",
        "/api/videos?offset=99999999999999999999",
        "/api/search",
        "/api/search?q=" + "a" * 2000,
        "/api/search?q=a&semantic=perhaps",
        "/api/search?q=a&semantic=1",
    ],
)
def test_odd_numbers_are_one_clear_line(path: str, client: Client) -> None:
    answer = client.get(path)
    assert answer.status == 422
    assert answer.error


@pytest.mark.parametrize(
    "path",
    [
        "/api/videos/4000000000",
        "/api/jobs/x",
        "/api/nothing",
        "/static/../../../../etc/passwd",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static//etc/passwd",
        "/static/nothing.js",
        "/static/",
        "/etc/passwd",
    ],
)
def test_what_is_not_there_is_not_found(path: str, client: Client) -> None:
    answer = client.get(path)
    assert answer.status == 404
    assert answer.error


@pytest.mark.parametrize("query", ['"', "*", "-", "a AND", "NEAR(", "^", "a:", "%00", "%ed%a0%80", "((", "' OR 1=1 --"])
def test_any_text_is_a_query(query: str, client: Client) -> None:
    answer = client.ask("GET", "/api/search?q=" + query.replace(" ", "%20").replace("^", "%5e").replace('"', "%22"))
    assert answer.status == 200


# --- the queue -----------------------------------------------------------------------------------------------------


def test_a_full_queue_says_when_to_try_again_and_goes_on(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path, queue=2)
    captioner.may_continue.clear()
    with serving(service) as client:
        first = client.upload(video).json["job"]
        client.wait_for(first, "working")
        waiting = [client.upload(another(video, number)).json["job"] for number in range(2)]
        refused = client.upload(another(video, 9))
        assert (refused.status, refused.headers["retry-after"]) == (429, "10")
        assert "2 videos are waiting" in refused.error
        large = client.upload(bytes(30_000_000))  # who sends all before reading anything still gets the answer
        assert large.status == 429
        captioner.may_continue.set()
        for job in (first, *waiting):
            client.wait_for(job, "done")
        assert client.upload(another(video, 9)).status == 202


def begin_upload(client: Client, video: bytes, sent: int) -> socket.socket:
    """An upload of which only the first bytes are sent."""
    head = (
        f"POST /api/videos HTTP/1.1\r\nHost: localhost\r\nX-Watchword-Name: a\r\nContent-Length: {len(video)}\r\n\r\n"
    )
    line = socket.create_connection(("127.0.0.1", client.port), timeout=60)
    line.sendall(head.encode() + video[:sent])
    return line


def test_an_upload_that_is_not_complete_holds_no_place(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path, queue=1)
    captioner.may_continue.clear()
    with serving(service) as client, ExitStack() as stack:
        slow = [stack.enter_context(begin_upload(client, another(video, number), 1000)) for number in range(9)]
        wait(lambda: len(files(service)) == 9)
        client.wait_for(client.upload(video).json["job"], "working")
        slow[0].sendall(another(video, 0)[1000:])
        assert slow[0].recv(65536).startswith(b"HTTP/1.1 202 ")  # it takes the only place
        slow[1].sendall(another(video, 1)[1000:])
        assert slow[1].recv(65536).startswith(b"HTTP/1.1 429 ")
        assert client.upload(video).status == 429
        wait(lambda: len(files(service)) == 9)  # the refused one is deleted; one more is captioned
        assert service.storage.jobs.coming == 0


def test_a_slow_client_reads_why_it_is_refused(video: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses for longer than uvicorn keeps a connection after a complete response, and sends the rest then."""
    service, captioner = fake_service(tmp_path, queue=1)
    captioner.may_continue.clear()
    body = bytes(3_000_000)
    with serving(service) as client:
        client.wait_for(client.upload(video).json["job"], "working")
        assert client.upload(another(video, 1)).status == 202
        with begin_upload(client, body, 1000) as line:
            time.sleep(6)
            line.sendall(body[1000:])
            answer = line.recv(65536)
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b"videos are waiting already" in answer
            line.sendall(b"GET /api/about HTTP/1.1\r\nHost: localhost\r\n\r\n")  # the connection is good for more
            assert line.recv(65536).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr("watchword.server.problems.SILENT_SECONDS", 0.1)
        with begin_upload(client, body, 1000) as line:  # sends no more: it is not waited for
            assert b"videos are waiting already" in b"".join(iter(lambda: line.recv(65536), b""))


def test_jobs_are_cancelled_while_they_wait_and_while_they_are_described(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path)
    captioner.may_continue.clear()
    with serving(service) as client:
        first, second = (client.upload(another(video, number), f"{number}").json["job"] for number in (1, 2))
        wait(lambda: captioner.names == ["1"])
        wait(lambda: client.job(first)["done_seconds"] > 0)
        assert client.ask("DELETE", f"/api/jobs/{second}").json["state"] == "cancelled"
        assert client.ask("DELETE", f"/api/jobs/{first}").json["state"] == "cancelled"
        wait(lambda: not files(service))
        assert client.get("/api/videos").json["total"] == 0
        captioner.may_continue.set()
        third = client.described(another(video, 3), "3")
        assert client.get(f"/api/videos/{third}").json["name"] == "3"
        assert captioner.names == ["1", "3"]
        done = client.get("/api/jobs").json["jobs"][0]
        assert client.ask("DELETE", f"/api/jobs/{done['id']}").json["state"] == "done"  # too late: it stays
        assert client.get("/api/videos").json["total"] == 1
        assert client.ask("DELETE", "/api/jobs/none").status == 404


def test_a_video_that_breaks_its_describer_is_tried_again_and_given_up_in_the_end(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path)
    crash = ProcessDied("its decoder crashed (SIGSEGV)", is_final=False)
    captioner.deaths = [crash] * (TRIES + 1)
    with serving(service) as client:
        bad = client.upload(video, "bad.mp4").json["job"]
        assert client.wait_for(bad, "failed")["error"] == "cannot describe bad.mp4: its decoder crashed (SIGSEGV)"
        assert captioner.names == ["bad.mp4"] * TRIES
        assert client.described(video, "unlucky.mp4")  # once
        captioner.deaths = [ProcessDied("it takes too much time to decode", is_final=True)]
        slow = client.upload(another(video, 1), "slow.mp4").json["job"]
        problem = client.wait_for(slow, "failed")["error"]
        assert problem == "cannot describe slow.mp4: it takes too much time to decode"
        assert captioner.names.count("slow.mp4") == 1
        wait(lambda: not list(service.storage.incoming.iterdir()))


# --- stopped and started -------------------------------------------------------------------------------------------


def test_a_server_that_is_stopped_goes_on_where_it_was(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        done = client.described(another(video, 0), "done.mp4")
        captioner.may_continue.clear()
        jobs = [client.upload(another(video, number), f"{number}.mp4").json["job"] for number in (1, 2)]
        wait(lambda: client.job(jobs[0])["done_seconds"] > 0)
    (service.storage.incoming / "f00").write_bytes(b"an upload that was broken off")
    (service.storage.videos / f"{'0' * 64}.mp4").write_bytes(b"a video that is not in the library")
    service, captioner = fake_service(tmp_path)
    assert len(list(service.storage.incoming.iterdir())) == 2
    assert len(list(service.storage.videos.iterdir())) == 1
    assert [job.tries for job in service.storage.jobs.unfinished()] == [0, 0]  # stopping was not the video's fault
    with serving(service) as client:
        for job in jobs:
            client.wait_for(job, "done")
        assert client.get(f"/api/videos/{done}").json["name"] == "done.mp4"
        assert client.get("/api/videos").json["total"] == 3


def test_a_server_that_was_killed_between_two_steps_repeats_the_last(video: bytes, tmp_path: Path) -> None:
    """The video in its place, the library told or not, the job still at work: described once more, and there once."""
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        number = client.described(video)
    database = sqlite3.connect(tmp_path / "library.db.uploads" / "jobs.db")
    database.execute("UPDATE jobs SET state = 'working', video = NULL, tries = 1")
    database.commit()
    database.close()
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        (job,) = client.get("/api/jobs").json["jobs"]
        assert client.wait_for(job["id"], "done")["video"] == number
        assert client.get("/api/videos").json["total"] == 1
        assert client.get(f"/api/videos/{number}/file").body == video


def test_a_video_that_ends_the_server_every_time_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    for _ in range(TRIES):
        jobs = Jobs(path, 3)
        if not jobs.all():
            jobs.add("bad.mp4", "f00.mp4", "sha256:f00", 1.0)
        assert jobs.begin() is not None
        jobs.close()
    jobs = Jobs(path, 3)
    assert (jobs.all()[0].state, jobs.begin()) == ("failed", None)
    jobs.close()


def test_two_servers_do_not_share_a_library(tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    with serving(service), pytest.raises(WatchwordError, match="another watchword serve"):
        fake_service(tmp_path)
    again, _ = fake_service(tmp_path)
    again.close()


def test_a_library_is_added_to_while_it_is_served(client: Client, shared: tuple[Client, Service]) -> None:
    other = Library(shared[1].storage.library.path)
    segments = (Segment(0.0, 1.0, (said("a zebra yawns"),)),)
    other.add(Description(Path("z"), 1.0, "x", segments), name="z", identity="zebra", source=None, explanation=None)
    assert client.get("/api/search?q=zebra").json["total"] == 1


def test_finished_jobs_are_forgotten_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.server.jobs.KEPT", 3)
    jobs = Jobs(tmp_path / "jobs.db", 1)
    for number in range(6):
        jobs.add(f"{number}", f"{number}.mp4", f"sha256:{number}", 1.0)
        job = jobs.begin()
        assert job is not None
        jobs.finish(job, number, "a dog", 0.5)
    assert [job.name for job in jobs.all()] == ["5", "4", "3"]
    jobs.close()


# --- who may come in -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("localhost.", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.nip.io", 421),
        ("192.168.0.7", 421),
        ("localhost@evil.example", 421),
        ("", 421),
    ],
)
def test_a_name_that_was_bound_to_our_address_is_not_ours(host: str, status: int, client: Client) -> None:
    assert client.get("/api/videos", Host=host).status == status


def test_a_request_with_two_hosts_is_refused(client: Client) -> None:
    answer = client.raw(b"GET /api/about HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert re.match(rb"HTTP/1.1 4\d\d ", answer)


@pytest.mark.parametrize(
    "sent", [b"\0\1\r\n\r\n", b"POST /api/videos HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_no_http_is_an_error_in_json(sent: bytes, client: Client) -> None:
    head, _, body = client.raw(sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body) == {"error": "Invalid HTTP request received."}


def test_pages_of_other_origins_may_not_ask(client: Client, video: bytes) -> None:
    ours = f"http://127.0.0.1:{client.port}"
    neighbour = f"http://127.0.0.1:{client.port + 1}"
    for origin in ("http://evil.example", "null", neighbour, "http://localhost", f"{ours}/"):
        assert client.upload(video, Origin=origin).status == 403, origin
        assert client.get("/api/videos", Origin=origin).status == 403
        assert client.ask("DELETE", "/api/videos/1", headers={"Origin": origin}).status == 403
    assert client.get("/api/videos", Origin=ours).status == 200
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert client.get("/api/videos", **{"Sec-Fetch-Site": site}).status == status
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/", **link).status == 200
    assert client.get("/api/videos", **link).status == 403
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert client.ask("OPTIONS", "/api/videos", headers=preflight).status == 403
    assert not any(name.startswith("access-control") for name in client.get("/api/videos", Origin=ours).headers)


def test_a_stranger_needs_the_token(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    door = AccessPolicy.of("0.0.0.0", 8000, ["videos.example"], "s3cret")
    with serving(service, door) as client:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "s3cret"},
            {"Authorization": "Basic s3cret"},
            {"Cookie": "watchword_8000=wrong"},
            {"Authorization": "Bearer s3cre\u00e9"},
            {"Authorization": "Bearer "},
        ):
            for path in ("/", "/static/main.js", "/api/videos", "/api/openapi.json", "/api/videos?token=s3cret"):
                answer = client.get(path, **headers)
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert client.upload(video, **headers).status == 401
        assert client.get("/?token=wrong").status == 401

        welcome = client.get("/?token=s3cret&video=3")
        assert (welcome.status, welcome.headers["location"]) == (303, "/?video=3")
        cookie = welcome.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert client.get("/api/videos", Cookie=f"odd;; other=1; {cookie.partition(';')[0]}").status == 200
        bearer = {"Authorization": "Bearer s3cret"}
        assert client.get("/api/videos", **bearer).status == 200
        assert client.get("/api/videos", Host="videos.example", **bearer).status == 200
        assert client.get("/api/videos", Host="192.168.0.7:8000", **bearer).status == 200
        assert client.get("/api/videos", Host="evil.example", **bearer).status == 421
        assert client.upload(video, Origin="http://evil.example", **bearer).status == 403


def test_the_door_asks_for_a_token_unless_only_this_machine_can_come() -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert AccessPolicy.of(host, 1, (), "t").token is None
    for host in ("0.0.0.0", "::", "192.168.0.7", "my.machine"):
        assert AccessPolicy.of(host, 1, (), "t").token == "t"
    assert AccessPolicy.of("127.0.0.1", 1, ["videos.example"], "t").token == "t"


def test_every_answer_tells_the_browser_to_be_careful(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Library, "count_hits", bug)
    statuses = set()
    for path in ("/", "/api/videos", "/nothing", "/api/videos/none", "/static/style.css", "/api/search?q=a"):
        answer = client.get(path)
        statuses.add(answer.status)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
    assert statuses == {200, 404, 422, 500}
    refused = client.get("/", Host="evil.example")
    assert "content-security-policy" in refused.headers


def test_attachments_have_safe_names() -> None:
    found = attachment('a"; x="y\r\n.vtt')
    assert found == "attachment; filename=\"a__ x__y__.vtt\"; filename*=UTF-8''a%22%3B%20x%3D%22y%0D%0A.vtt"


# --- what is documented --------------------------------------------------------------------------------------------


def test_the_api_is_documented(client: Client) -> None:
    document = client.get("/api/openapi.json").json
    assert set(document["paths"]) == {
        "/healthz",
        "/api/describe",
        "/api/export",
        "/api/videos/{video}/describe",
        "/api/videos/{video}/segments/{segment}/caption",
        "/api/about",
        "/api/videos",
        "/api/videos/{video}",
        "/api/videos/{video}/attention",
        "/api/videos/{video}/file",
        "/api/videos/{video}/thumbnail",
        "/api/videos/{video}/frame",
        "/api/jobs",
        "/api/jobs/{job}",
        "/api/jobs/{job}/events",
        "/api/search",
        *(f"/api/videos/{{video}}/{name}" for name in server_module.DOWNLOADS),
        *(f"/api/videos/{{video}}/{lane}.{form}" for lane in LANES for form in ("vtt", "srt")),
    }
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            assert about["summary"], f"{method} {path}"
            problem = about["responses"].get("422", {}).get("content", {}).get("application/json", {}).get("schema")
            assert problem in (None, {"$ref": "#/components/schemas/ErrorAnswer"}), f"{method} {path}"


def test_the_api_can_be_read_without_a_network_and_without_running_scripts(client: Client) -> None:
    page = client.get("/api/docs")
    assert page.headers["content-type"].startswith("text/html")
    text = page.body.decode()
    assert "<code>POST /api/videos</code>" in text
    assert "x-watchword-name" in text
    assert 'href="#ErrorAnswer"' in text
    assert text.count("<script") == text.count('<script type="module" src="/static/') == 1
    assert text.count('<details class="try">') == text.count("<section><h3><code>")
    assert "http://" not in text
    assert "https://" not in text


# --- the real thing ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioners") / "tiny")


class Running:
    """`watchword serve` as a person starts it."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = [sys.executable, "-m", "watchword", "serve", "--port", "0", "--library", str(folder / "l.db"), *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.client = Client(int(self.line.split(":")[3].split("/")[0]))

    def kill(self, how: int = signal.SIGKILL) -> int:
        self.process.send_signal(how)
        return self.process.wait(30)


@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_was_finished_and_goes_on_with_what_waited(
    captioner: Path, video: bytes, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        first = Running(tmp_path, "--model", str(captioner))
        stack.callback(first.process.kill)
        assert "(tiny, " in first.line
        done = first.client.described(video, "done.mp4")
        said_first = first.client.get(f"/api/videos/{done}").json
        assert said_first["captioner"] == "tiny"
        assert said_first["segments"][0]["caption"]
        explanation = Explanation.read(first.client.get(f"/api/videos/{done}/attention").json)
        words = [word["word"] for word in said_first["segments"][0]["words"]]
        assert [spoken.word for spoken in explanation.segments[0].words] == words
        assert explanation.segments[0].heads["appearance"].weights.shape[:2] == (len(words), 6)
        jobs = [first.client.upload(another(video, number), f"{number}.mp4").json["job"] for number in range(4)]
        first.client.wait_for(jobs[0], "working", "done")
        first.kill()

        second = Running(tmp_path, "--model", str(captioner))
        stack.callback(second.process.kill)
        assert second.client.get(f"/api/videos/{done}").json == said_first
        assert second.client.get(f"/api/videos/{done}/file").body == video
        for job in jobs:
            assert second.client.wait_for(job, "done")["caption_so_far"] == said_first["segments"][0]["caption"]
        assert second.client.get("/api/videos").json["total"] == 5
        memory = Path(f"/proc/{second.process.pid}/maps")
        if memory.exists():
            assert "libtorch" not in memory.read_text()  # torch is in the child alone
        third = subprocess.run(
            [sys.executable, "-m", "watchword", "serve", "--port", "0", "--library", str(tmp_path / "l.db")],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert third.returncode == 1
        assert re.fullmatch(r"watchword: another watchword serve has this library open .*\n", third.stderr)
        assert second.kill(signal.SIGINT) in {0, 130, -signal.SIGINT}


@pytest.mark.slow
def test_a_describer_that_is_killed_in_the_middle_is_started_again(
    captioner: Path, video: bytes, tmp_path: Path
) -> None:
    service = Service(tmp_path / "library.db", str(captioner), limits_of())
    with serving(service) as client:
        assert service.workers[0].captioner.process.process is not None
        before = service.workers[0].captioner.process.process
        job = client.upload(video).json["job"]
        client.wait_for(job, "working")
        before.kill()
        done = client.wait_for(job, "done")
        assert client.get(f"/api/videos/{done['video']}").json["captioner"] == "tiny"
        assert service.workers[0].captioner.process.process is not before
        long = write_video(tmp_path / "long.mp4", [numbered(index) for index in range(200)], range(0, 50_000, 250))
        segments = client.get(f"/api/videos/{client.described(long)}").json["segments"]  # a timeline
        assert segments[0]["start"] == 0
        assert segments[-1]["end"] == pytest.approx(50, abs=0.5)


def test_a_mistyped_captioner_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WatchwordError, match="unknown captioner"), Service(tmp_path / "l.db", "lihgt", limits_of()):
        pass
    Service(tmp_path / "l.db", None, limits_of()).close()  # nothing is left locked


def test_a_port_that_is_taken_is_one_line() -> None:
    from watchword.cli.serve import listen

    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(WatchwordError, match=r"cannot listen on 127\.0\.0\.1:.*--port 0"):
            listen("127.0.0.1", taken.getsockname()[1])


def test_many_people_at_once_get_answers(client: Client, video: bytes) -> None:
    answers: list[int] = []
    begun = time.monotonic()

    def one(number: int) -> None:
        answers.append(client.upload(another(video, 1000 + number)).status)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == 20
    assert set(answers) <= {202, 429}
    assert time.monotonic() - begun < 120


def test_a_queue_of_version_1_goes_on(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "jobs.db")
    caption, video, error = RENAMED
    connection.execute(
        "CREATE TABLE jobs (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
        "file TEXT NOT NULL, identity TEXT NOT NULL, seconds REAL NOT NULL, added REAL NOT NULL, "
        "state TEXT NOT NULL DEFAULT 'waiting', tries INTEGER NOT NULL DEFAULT 0, "
        f"done_seconds REAL NOT NULL DEFAULT 0, {caption} TEXT NOT NULL DEFAULT '', {video} INTEGER, {error} TEXT)"
    )
    rows = [
        ("a", "a.mp4", "1", "sha256:1", 2.0, 3.0, "done", 1, 2.0, "a dog", 7, None),
        ("b", "b.mp4", "2", "sha256:2", 2.0, 4.0, "failed", 3, 0.0, "", None, "cannot read it"),
        ("c", "c.mp4", "3", "sha256:3", 2.0, 5.0, "waiting", 0, 0.0, "", None, None),
    ]
    places = ", ".join("?" * 12)
    connection.executemany(f"INSERT INTO jobs VALUES (NULL, {places})", rows)
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    for _ in range(2):  # upgraded once
        jobs = Jobs(tmp_path / "jobs.db", 3)
        found = {job.id: job for job in jobs.all()}
        assert (found["a"].caption, found["a"].video, found["b"].error) == ("a dog", 7, "cannot read it")
        assert {(job.captioner, job.confidence) for job in found.values()} == {("", 1.0)}
        assert [job.id for job in jobs.unfinished()] == ["c"]
        jobs.close()


@pytest.mark.parametrize(("version", "lacks"), [(2, ("confidence", "captioner")), (3, ("confidence",))])
def test_a_queue_of_a_later_version_gets_the_columns_that_it_lacks(
    tmp_path: Path, version: int, lacks: tuple[str, ...]
) -> None:
    Jobs(tmp_path / "jobs.db", 3).close()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        for column in lacks:
            connection.execute(f"ALTER TABLE jobs DROP COLUMN {column}")
        connection.execute(f"PRAGMA user_version = {version}")
    jobs = Jobs(tmp_path / "jobs.db", 3)
    with jobs.place():
        job = jobs.add("a.mp4", "1", "sha256:1", 2.0)
    assert (job.captioner, job.confidence) == ("", 1.0)
    jobs.close()


# --- behind a proxy, in a backup -----------------------------------------------------------------------------------


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[int]:
    """The port of examples/nginx.conf with a certificate of its own, before a server on `port`."""
    names = ["-subj", "/CN=videos.example.org", "-keyout", "key.pem", "-out", "cert.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *names]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        outside = free.getsockname()[1]
    text = (ROOT / "examples" / "nginx.conf").read_text()
    changes = {
        "rate=20r/s": "rate=1r/m",  # whatever else the machine does
        "burst=60": "burst=10",
        "listen 443": f"listen 127.0.0.1:{outside}",
        "127.0.0.1:8000": f"127.0.0.1:{port}",
        "/etc/ssl/videos.example.org.crt": f"{folder}/cert.pem",
        "/etc/ssl/private/videos.example.org.key": f"{folder}/key.pem",
    }
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    own = "".join(f"{kind}_temp_path {folder}/temp;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"{user} daemon off; pid {folder}/pid; error_log stderr; events {{}} http {{ access_log off; {own} {text} }}"
    )
    with subprocess.Popen(["nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"]) as process:
        try:
            wait(lambda: socket.socket().connect_ex(("127.0.0.1", outside)) == 0)
            yield outside
        finally:
            process.terminate()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx")
def test_the_example_of_a_proxy_brings_tls_a_token_and_a_rate(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    policy = AccessPolicy.of("127.0.0.1", 1, ["videos.example.org"], "s3cret")
    with serving(service, policy) as client, nginx(tmp_path, client.port) as port:
        context = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
        context.check_hostname = False  # the name is not that of this machine

        def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
            connection.request(method, path, body, {"Host": "videos.example.org", **headers})
            response = connection.getresponse()
            found = response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            connection.close()
            return found

        token = {"Authorization": "Bearer s3cret"}
        assert ask("GET", "/api/about")[0] == 401
        assert ask("GET", "/api/about", **token)[0] == 200
        assert "secure" in ask("GET", "/?token=s3cret")[1]["set-cookie"].lower()
        page = {"Origin": "https://videos.example.org", "X-Watchword-Name": "a.mp4", **token}
        assert ask("POST", "/api/videos", video, **page)[0] == 202
        assert 429 in {ask("GET", "/api/about")[0] for _ in range(20)}


def test_what_nobody_fetches_stays_until_it_is_deleted(
    video: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/guide/serve.md has it: captioned uploads have no term, others leave no file."""
    monkeypatch.setattr("watchword.server.jobs.KEPT", 1)
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        numbers = [client.described(another(video, number)) for number in range(3)]
        captioner.deaths = [ProcessDied("its decoder crashed", is_final=True)]
        client.wait_for(client.upload(another(video, 9)).json["job"], "failed")
        wait(lambda: not list(service.storage.incoming.iterdir()))
        assert len(client.get("/api/jobs").json["jobs"]) == 1
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        assert client.get("/api/videos").json["total"] == 3
        for number in numbers:
            assert client.get(f"/api/videos/{number}/file").status == 200
            assert client.ask("DELETE", f"/api/videos/{number}").status == 204
        assert files(service) == []


def test_a_backup_of_a_library_can_be_restored(video: bytes, tmp_path: Path) -> None:
    """As docs/guide/library.md has it: SQLite's own backup, and the folder of uploads."""
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        number = client.described(video, "beach.mp4")
        copy = tmp_path / "backup"
        copy.mkdir()
        paths = tmp_path / "library.db", copy / "library.db"
        with closing(sqlite3.connect(paths[0])) as source, closing(sqlite3.connect(paths[1])) as target:
            source.backup(target)  # while the server runs
        shutil.copytree(tmp_path / "library.db.uploads" / "videos", copy / "library.db.uploads" / "videos")
        before = client.get(f"/api/videos/{number}").json
    for path in tmp_path.iterdir():
        if path != copy:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in copy.iterdir():
        path.rename(tmp_path / path.name)
    service, _ = fake_service(tmp_path)
    with serving(service) as client:
        assert client.get(f"/api/videos/{number}").json == before
        assert client.get(f"/api/videos/{number}/file").body == video
