"""What people do with a described video over HTTP: correct it, describe it again, sort, filter, download many."""

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.servers import Client, FakeCaptionProcess, fake_service, said, serving, wait
from tests.test_server import another
from tests.videos import number_of, numbered, write_video
from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library
from watchword.server.export import free_path
from watchword.server.service import Service


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = write_video(tmp_path_factory.mktemp("videos") / "clip.mp4", [numbered(index) for index in range(25)])
    return path.read_bytes()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Client, Service, FakeCaptionProcess]]:
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        yield client, service, captioner


Served = tuple[Client, Service, FakeCaptionProcess]


def edit(client: Client, number: int, segment: int, caption: object) -> "tuple[int, object]":
    body = json.dumps({"caption": caption})
    path = f"/api/videos/{number}/segments/{segment}/caption"
    answer = client.ask("PUT", path, body, {"Content-Type": "application/json"})
    return answer.status, answer.json


def test_a_caption_is_corrected_found_downloaded_and_restored(served: Served, video: bytes) -> None:
    client, _, _ = served
    number = client.described(video, "beach.mp4")
    assert edit(client, number, 1, "a wolf <howls>")[0] == 200
    first, second = client.get(f"/api/videos/{number}").json["segments"]
    assert (first["edited"], first["original"], first["unsure"]) == (False, None, False)
    assert (second["caption"], second["edited"], second["alternatives"]) == ("a wolf <howls>", True, [])
    assert second["original"]["caption"] == "a man <b>sleeps</b>"
    assert [word["word"] for word in second["original"]["words"]] == ["a", "man", "<b>sleeps</b>"]
    (hit,) = client.get("/api/search?q=wolf").json["hits"]
    assert (hit["edited"], hit["unsure"]) == (True, False)
    assert client.get("/api/search?q=man").json["total"] == 0
    assert b"A wolf &lt;howls&gt;." in client.get(f"/api/videos/{number}/descriptions.vtt").body
    (card,) = client.get("/api/videos").json["videos"]
    assert (card["caption"], card["edited"]) == ("a wolf <howls>", 1)
    restored = client.ask("DELETE", f"/api/videos/{number}/segments/1/caption").json
    assert (restored["caption"], restored["edited"], restored["original"]) == ("a man <b>sleeps</b>", False, None)
    assert client.get("/api/search?q=wolf").json["total"] == 0


def test_a_correction_that_cannot_be_made_is_one_line(served: Served, video: bytes) -> None:
    client, _, _ = served
    number = client.described(video)
    for segment, caption, status in ((2, "a", 404), (-1, "a", 422), (0, "", 422), (0, " \n", 422), (0, 7, 422)):
        assert edit(client, number, segment, caption)[0] == status, (segment, caption)
    assert edit(client, number, 0, "x" * 501) == (
        422,
        {"error": "the caption has 501 characters: write at most 500"},
    )
    assert edit(client, number + 1, 0, "a")[0] == 404


def test_a_body_that_is_no_text_gets_a_status_that_the_document_names(served: Served, video: bytes) -> None:
    client, _, _ = served
    path = f"/api/videos/{client.described(video)}/segments/0/caption"
    named = client.get("/api/openapi.json").json["paths"]["/api/videos/{video}/segments/{segment}/caption"]["put"]
    for body in (b'{"caption": "\xff"}', b"[" * 200_000, b"{", b"", b"null"):
        answer = client.ask("PUT", path, body, {"Content-Type": "application/json"})
        assert str(answer.status) in named["responses"], body[:20]
        assert answer.error


def test_a_video_is_described_again_by_a_chosen_captioner_and_keeps_what_people_wrote(
    served: Served, video: bytes
) -> None:
    client, service, captioner = served
    assert client.get("/api/about").json["captioners"] == ["fake", "other"]
    number = client.described(video, "beach.mp4")
    before = client.get("/api/videos").json["videos"][0]
    edit(client, number, 0, "a wolf runs")
    again = client.ask("POST", f"/api/videos/{number}/describe?captioner=other")
    assert again.status == 202
    assert client.wait_for(again.json["job"], "done")["video"] == number
    assert captioner.chosen == ["", "other"]
    shown = client.get(f"/api/videos/{number}").json
    assert (shown["captioner"], shown["has_file"]) == ("other", True)
    assert [segment["caption"] for segment in shown["segments"]] == ["a wolf runs", "a man <b>sleeps</b>"]
    assert client.get(f"/api/videos/{number}/file").body == video
    (row,) = client.get("/api/videos").json["videos"]
    assert (row["added"], row["name"]) == (before["added"], "beach.mp4")
    assert client.ask("POST", f"/api/videos/{number}/describe?captioner=/etc").status == 422
    assert len(list(service.storage.videos.iterdir())) == 1


def test_an_upload_chooses_its_captioner(served: Served, video: bytes) -> None:
    client, _, captioner = served
    named = {"X-Watchword-Name": "a.mp4"}
    assert client.ask("POST", "/api/videos?captioner=nobody", video, named).error.startswith("captioner: choose one of")
    for name, chosen in (("other", "other"), ("fake", "")):  # its own captioner needs no name
        answer = client.ask("POST", f"/api/videos?captioner={name}", another(video, len(name)), named)
        client.wait_for(answer.json["job"], "done")
        assert captioner.chosen[-1] == chosen


def test_describing_again_is_one_job_can_be_cancelled_and_never_touches_the_file(
    served: Served, video: bytes, tmp_path: Path
) -> None:
    client, service, captioner = served
    mine = tmp_path / "mine.mp4"
    mine.write_bytes(video)
    gone = tmp_path / "gone.mp4"
    library = Library(service.storage.library.path)
    segments = (Segment(0.0, 1.0, (said("a zebra yawns"),)),)
    description = Description(mine, 1.0, "x", segments)
    number = library.add(description, name="mine.mp4", identity="mine", source=mine, explanation=None)
    lost = library.add(description, name="gone.mp4", identity="gone", source=gone, explanation=None)
    assert client.ask("POST", f"/api/videos/{lost}/describe").status == 404
    captioner.may_continue.clear()
    job, same = (client.ask("POST", f"/api/videos/{number}/describe").json["job"] for _ in range(2))
    assert job == same
    wait(lambda: client.job(job)["done_seconds"] > 0)
    assert client.ask("DELETE", f"/api/jobs/{job}").json["state"] == "cancelled"
    captioner.may_continue.set()
    assert client.get(f"/api/videos/{number}").json["segments"][0]["caption"] == "a zebra yawns"
    assert mine.read_bytes() == video
    again = client.ask("POST", f"/api/videos/{number}/describe").json["job"]
    client.wait_for(again, "done")
    assert client.get(f"/api/videos/{number}").json["segments"][0]["caption"] == "a dog runs"
    row = library.video(number)
    assert row is not None
    assert row.source == mine


def test_a_server_that_is_stopped_goes_on_describing_again(video: bytes, tmp_path: Path) -> None:
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        number = client.described(video)
        captioner.may_continue.clear()
        job = client.ask("POST", f"/api/videos/{number}/describe?captioner=other").json["job"]
        wait(lambda: client.job(job)["done_seconds"] > 0)
    service, captioner = fake_service(tmp_path)
    with serving(service) as client:
        client.wait_for(job, "done")
        assert client.get(f"/api/videos/{number}").json["captioner"] == "other"
        assert client.get(f"/api/videos/{number}/file").body == video


def test_a_list_is_sorted_and_filtered(served: Served, video: bytes) -> None:
    client, service, _ = served
    numbers = [
        client.described(another(video, number), name) for number, name in enumerate(("b.mp4", "a.mp4", "C.mp4"))
    ]
    segments = (Segment(0.0, 1.0, (said("a zebra yawns", 0.2),)),)
    unsure = service.storage.library.add(
        Description(Path("z"), 9.0, "x", segments), name="z.mp4", identity="z", source=None, explanation=None
    )

    def names(query: str) -> list[str]:
        answer = client.get(f"/api/videos?{query}").json
        assert answer["total"] == len(answer["videos"])
        return [row["name"] for row in answer["videos"]]

    assert names("sort=name&descending=false") == ["a.mp4", "b.mp4", "C.mp4", "z.mp4"]
    assert names("sort=seconds")[0] == "z.mp4"
    assert names("sort=confidence&descending=false")[0] == "z.mp4"
    assert names("unsure=true") == ["z.mp4"]
    assert names("captioner=x") == ["z.mp4"]
    assert names("name=c.") == ["C.mp4"]
    edit(client, numbers[0], 0, "a wolf")
    assert names("edited=true") == ["b.mp4"]
    assert client.get(f"/api/videos/{unsure}").json["segments"][0]["unsure"] is True
    assert client.get("/api/search?q=zebra").json["hits"][0]["unsure"] is True
    assert client.get("/api/videos?sort=path").status == 422


def test_many_videos_are_one_download(served: Served, video: bytes) -> None:
    client, _, _ = served
    names = ("holiday.mp4", "holiday.mov", "Fête.mp4")
    numbers = [client.described(another(video, number), name) for number, name in enumerate(names)]
    edit(client, numbers[0], 0, "a wolf runs")
    document = client.get("/api/export?format=json")
    assert sorted(one["video"] for one in document.json["videos"]) == sorted(names)
    assert document.headers["content-disposition"] == 'attachment; filename="watchword.json"'
    some = client.get(f"/api/export?format=csv&video={numbers[2]}&video={numbers[0]}").body.decode()
    rows = list(csv.DictReader(io.StringIO(some)))
    assert [(row["video"], row["edited"]) for row in rows[::2]] == [("Fête.mp4", ""), ("holiday.mp4", "yes")]
    archive = client.get("/api/export?format=srt")
    assert archive.headers["content-disposition"] == 'attachment; filename="watchword-srt.zip"'
    files = zipfile.ZipFile(io.BytesIO(archive.body))
    assert sorted(files.namelist()) == ["Fête.srt", "holiday (2).srt", "holiday.srt"]
    assert b"A wolf runs." in files.read("holiday (2).srt")  # the newest is first
    assert client.get("/api/export?format=srt&video=999").status == 404
    assert client.get("/api/export?format=exe").status == 422
    assert client.get(f"/api/export?video={2**63}").status == 422  # more than SQLite can hold


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("../../etc/passwd.mp4", "etc/passwd.srt"),
        ("/abs.mp4", "abs.srt"),
        ("..\\up.mp4", "up.srt"),
        ("...", "video.srt"),
        ("a/b.mp4", "a/b.srt"),
    ],
)
def test_a_name_in_an_archive_stays_in_its_folder(name: str, path: str) -> None:
    assert free_path(name, ".srt", set()) == path


def test_thumbnails_and_hits_show_the_frame_of_the_caption(served: Served, tmp_path: Path) -> None:
    """A video of 8 s, frame n at n seconds. The caption of the second half is more confident, and peaks at 6 s."""
    client, service, _ = served
    path = write_video(tmp_path / "clip.mp4", [numbered(n) for n in range(8)], [1000 * n for n in range(8)])
    sleeps = Caption((Word("sleeps", 0.5, {"appearance": 1.0}),), 0.1)
    runs = Caption(tuple(Word(word, 0.5, {"appearance": 6.0}) for word in ("a", "dog", "runs")), 0.8)
    segments = (Segment(0.0, 4.0, (sleeps,)), Segment(4.0, 8.0, (runs,)))
    number = service.storage.library.add(
        Description(path, 8.0, "x", segments), name="clip.mp4", identity="x", source=path, explanation=None
    )

    def shown(address: str) -> int:
        picture = Image.open(io.BytesIO(client.get(address).body))
        return number_of(np.asarray(picture.convert("RGB")))

    assert shown(f"/api/videos/{number}/thumbnail") == 6
    (hit,) = client.get("/api/search?q=sleeps").json["hits"]
    assert shown(f"/api/videos/{number}/frame?small=true&seconds={hit['key_seconds']}") == 1
    assert [one["key_seconds"] for one in client.get(f"/api/videos/{number}").json["segments"]] == [1.0, 6.0]


def test_a_long_video_has_chapters(served: Served) -> None:
    client, service, _ = served
    texts = ["a man talks", "a dog runs in a park", "two women cook rice"]
    segments = tuple(Segment(20.0 * n, 20.0 * n + 20, (said(texts[n // 4], 0.1 * n),)) for n in range(12))
    number = service.storage.library.add(
        Description(Path("x"), 240.0, "x", segments), name="x", identity="x", source=None, explanation=None
    )
    parts = client.get(f"/api/videos/{number}").json["chapters"]
    assert [(part["start"], part["end"], part["caption"]) for part in parts] == [
        (0.0, 80.0, texts[0]),
        (80.0, 160.0, texts[1]),
        (160.0, 240.0, texts[2]),
    ]


KEYS = st.sampled_from(["caption", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["caption", "x"]), values, max_size=2)
    ),
    max_leaves=5,
)
BODIES = st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode())
FEW = settings(max_examples=15, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(body=BODIES | st.sampled_from([b"[" * 100_000, b'{"caption": ' * 50_000, b"9" * 5000]))
@FEW
def test_any_body_is_a_correction_or_an_error_in_json(served: Served, video: bytes, body: bytes) -> None:
    client, _, _ = served
    path, kind = "/api/videos/1/segments/0/caption", {"Content-Type": "application/json"}
    answer = client.ask("PUT", path, body, kind)
    if answer.status == 404:  # the first body of all
        client.described(video, "beach.mp4")
        answer = client.ask("PUT", path, body, kind)
    assert answer.status in (200, 400, 422)
    assert answer.status == 200 or isinstance(answer.json["error"], str)
