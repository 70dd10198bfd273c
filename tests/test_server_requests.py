"""How programs talk to the server: forms, calls that wait, health, other origins, several describers, the client."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Answer, Client, FakeCaptionProcess, fake_service, limits_of, serving, wait
from tests.test_server import another, files
from tests.videos import numbered, write_video
from watchword.errors import WatchwordError
from watchword.server import uploads
from watchword.server.auth import AccessPolicy
from watchword.server.multipart import OVERHEAD
from watchword.server.service import Service

ROOT = Path(__file__).parents[1]
BOUNDARY = "--------------------------boundary"
APP = "https://app.example"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", [numbered(index) for index in range(25)])


@pytest.fixture(scope="module")
def video(path: Path) -> bytes:
    return path.read_bytes()


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return fake_service(tmp_path)[0]


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with serving(service) as client:
        yield client


# --- forms ----------------------------------------------------------------------------------------------------------


def part(content: bytes, disposition: str) -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def send(client: Client, body: bytes, path: str = "/api/videos", boundary: str = BOUNDARY) -> Answer:
    return client.ask("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl_uploads_a_form(client: Client, path: Path) -> None:
    words = ["curl", "-sS", "-F", f"file=@{path}", f"http://127.0.0.1:{client.port}/api/videos"]
    job = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["job"]
    number = client.wait_for(job, "done")["video"]
    assert client.get(f"/api/videos/{number}").json["name"] == "clip.mp4"
    assert client.get(f"/api/videos/{number}/file").body == path.read_bytes()


def test_the_first_file_of_a_form_is_the_video_whatever_its_name(client: Client, video: bytes) -> None:
    fields = part(b"notes", 'name="about"'), part(video, 'name="x"; filename="../../f%C3%AAte.mp4"')
    job = send(client, form(*fields)).json["job"]
    assert client.wait_for(job, "done")["name"] == "f%C3%AAte.mp4"  # not percent-encoded: these are its letters


def test_a_form_that_is_broken_off_empty_or_foreign_is_one_line_and_leaves_nothing(
    client: Client, service: Service, video: bytes
) -> None:
    whole = form(part(video, 'name="file"; filename="a.mp4"'))
    refused = {
        "no file": (form(part(b"x", 'name="a"')), 400, "without a whole file"),
        "no end": (whole[:-8], 400, "without a whole file"),
        "no form": (b"\x00" * 100, 400, "cannot be read"),
        "no boundary": (b"", 400, "without a whole file"),
        "two files": (
            form(part(video, 'name="a"; filename="a"'), part(bytes(2 * OVERHEAD), 'name="b"')),
            400,
            "one file",
        ),
        "no video": (form(part(b"text", 'name="a"; filename="a.mp4"')), 422, "a.mp4"),
    }
    for name, (body, status, line) in refused.items():
        answer = send(client, body)
        assert (answer.status, line in answer.error) == (status, True), (name, answer.body)
    assert send(client, whole, boundary="").status == 400
    assert files(service) == []
    assert service.storage.jobs.coming == 0


def test_a_form_may_be_as_large_as_a_file_and_no_larger(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path, bytes=len(video))
    with serving(service) as client:
        assert send(client, form(part(video, 'name="file"; filename="a.mp4"'))).status == 202
        assert send(client, form(part(another(video, 1), 'name="file"; filename="a.mp4"'))).status == 413
        assert send(client, form(part(video + bytes(2 * OVERHEAD), 'name="file"; filename="a.mp4"'))).status == 413


# --- calls that wait --------------------------------------------------------------------------------------------------


def test_a_short_video_is_answered_with_its_description(client: Client, video: bytes) -> None:
    answer = send(client, form(part(video, 'name="file"; filename="a.mp4"')), "/api/describe")
    assert answer.status == 200
    assert [segment["caption"] for segment in answer.json["segments"]] == ["a dog runs", "a man <b>sleeps</b>"]
    assert client.get(f"/api/videos/{answer.json['id']}").json == answer.json


def test_a_call_that_would_wait_too_long_is_a_job(
    video: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        captioner.may_continue.clear()
        named = {"X-Watchword-Name": "a.mp4"}
        answer = client.ask("POST", "/api/describe?wait=0.2", video, named)
        assert answer.status == 202
        captioner.may_continue.set()
        client.wait_for(answer.json["job"], "done")
        monkeypatch.setattr(uploads, "SHORT_SECONDS", 0.5)
        answer = client.ask("POST", "/api/describe", another(video, 1), named)
        assert answer.status == 202
        client.wait_for(answer.json["job"], "done")


def test_a_call_for_a_video_that_fails_says_why(video: bytes, tmp_path: Path) -> None:
    from watchword.server.subprocesses import ProcessDied

    service, captioner = fake_service(tmp_path)
    captioner.deaths = [ProcessDied("it takes too much time to decode", is_final=True)]
    with serving(service) as client:
        answer = client.ask("POST", "/api/describe", video, {"X-Watchword-Name": "a.mp4"})
        assert answer.status == 422
        assert answer.error == "cannot describe a.mp4: it takes too much time to decode"


def test_the_client_of_the_documents_describes_a_video(client: Client, path: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "reference" / "http_api.md").read_text("utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(code.splitlines()) <= 10
    script = tmp_path / "client.py"
    script.write_text(code.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{client.port}"))
    done = subprocess.run([sys.executable, script], cwd=path.parent, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["0.0 a dog runs 0.7", "0.5 a man <b>sleeps</b> 0.3"]


# --- health, and other origins ----------------------------------------------------------------------------------------


def test_health_is_told_without_a_token_and_not_when_no_video_would_be_captioned(tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    with serving(service, AccessPolicy.of("0.0.0.0", 8000, (), "s3cret")) as client:
        assert client.get("/api/about").status == 401
        assert client.get("/healthz").json == {"status": "ok"}
        assert client.get("/healthz", Host="evil.example").status == 421
        service.workers[0].stop()
        assert client.get("/healthz").status == 503


def test_a_named_origin_may_use_the_api_and_no_other(video: bytes, tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    with serving(service, AccessPolicy.of("127.0.0.1", 8000, (), "unused", [APP])) as client:
        browser = {"Origin": APP, "Sec-Fetch-Site": "cross-site"}
        answer = client.get("/api/videos", **browser)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, APP)
        assert client.upload(video, **browser).status == 202
        asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-watchword-name"}
        preflight = client.ask("OPTIONS", "/api/videos", headers={**browser, **asked})
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, APP)
        for other in ("https://evil.example", "http://app.example", f"{APP}:8443", "null"):
            answer = client.get("/api/videos", Origin=other)
            assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False), other
        assert client.get("/api/videos", **{"Sec-Fetch-Site": "cross-site"}).status == 403


def test_a_named_origin_still_needs_the_token(tmp_path: Path) -> None:
    service, _ = fake_service(tmp_path)
    with serving(service, AccessPolicy.of("0.0.0.0", 8000, (), "s3cret", [APP])) as client:
        refused = client.get("/api/videos", Origin=APP)
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, APP)  # the page can read why
        assert client.get("/api/videos", Origin=APP, Authorization="Bearer s3cret").status == 200


@pytest.mark.parametrize("origin", ["*", "app.example", f"{APP}/", f"{APP}/path", "null", "https://APP.example"])
def test_what_is_no_origin_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(WatchwordError, match="is no origin: write it as"):
        AccessPolicy.of("127.0.0.1", 8000, (), "x", [origin])


# --- several describers -----------------------------------------------------------------------------------------------


def test_several_describers_work_side_by_side_and_one_is_stopped_alone(video: bytes, tmp_path: Path) -> None:
    fakes: list[FakeCaptionProcess] = []

    def make(model: str | None, threads: int | None, lanes: object) -> FakeCaptionProcess:
        assert threads is not None
        fakes.append(FakeCaptionProcess())
        fakes[-1].may_continue.clear()
        return fakes[-1]

    service = Service(tmp_path / "library.db", None, limits_of(queue=9), 2, captioner=make)  # type: ignore[arg-type]
    with serving(service) as client:
        jobs = [client.upload(another(video, number), f"{number}.mp4").json["job"] for number in range(3)]
        wait(lambda: [client.job(job)["state"] for job in jobs] == ["working", "working", "waiting"])
        assert sorted(len(fake.names) for fake in fakes) == [1, 1]
        wait(lambda: all(client.job(job)["done_seconds"] > 0 for job in jobs[:2]))
        client.ask("DELETE", f"/api/jobs/{jobs[0]}")
        wait(lambda: client.job(jobs[2])["state"] == "working")
        assert client.job(jobs[1])["state"] == "working"  # the other goes on
        for fake in fakes:
            fake.may_continue.set()
        for job in jobs[1:]:
            client.wait_for(job, "done")
        assert sum(fake.names.count("1.mp4") for fake in fakes) == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "watchword worker"]
