"""Videos in requests to a small vision model: answers in each API, and refusals."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.images.media.pictures import data_uri, picture
from tests.calculators.images.media.videos import BLUE, RED, video
from tests.process.http_client import CHAT, HttpClient
from tests.process.server_process import DEMO, ServerProcess
from tests.support.checkout import ROOT

SEEING: Final = ROOT / "examples" / "models" / "shapes_vlm"
PART: Final = "messages[0].content[0]"
WHAT: Final = "What color?"
BOTH: Final = video([RED, BLUE])
ANSWER: Final = {"max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("videos")
    (folder / "blue.webm").write_bytes(video([BLUE], form="webm", codec="libvpx"))
    with ServerProcess("--allowed_local_media_path", folder, SEEING, DEMO) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> HttpClient:
    return server.client


def uri(*colours: Any, **how: Any) -> str:
    return data_uri(video(colours, **how), "video/mp4")


def part(url: Any, **more: Any) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": url}, **more}


def chat(client: HttpClient, *parts: dict[str, Any], model: str = SEEING.name) -> Any:
    content = [*parts, {"type": "text", "text": WHAT}]
    messages = [{"role": "user", "content": content}]
    return client.post(CHAT, model=model, messages=messages, **ANSWER)


def said(client: HttpClient, *parts: dict[str, Any]) -> str:
    reply = chat(client, *parts)
    assert reply.status == 200, reply.body
    text: str = reply.json["choices"][0]["message"]["content"]
    return text


def test_the_answer_names_what_a_video_shows(client: HttpClient) -> None:
    assert "red" in said(client, part(uri(RED)))
    assert "blue" in said(client, part(uri(BLUE)))
    assert "blue" in said(client, part("blue.webm"))
    assert "blue" in said(client, {"type": "video", "video": uri(BLUE)})
    assert "red" in said(client, {"type": "input_video", "video_url": uri(RED)})


def test_more_frames_are_more_tokens(client: HttpClient) -> None:
    few, many = (chat(client, part(uri(RED), fps=fps)).json["usage"] for fps in (2, 8))
    assert few["prompt_tokens"] < many["prompt_tokens"]


def test_frames_may_be_pictures_and_stand_beside_a_picture(client: HttpClient) -> None:
    frames = [data_uri(picture(40, 40, colour=BLUE))] * 3
    assert "blue" in said(client, part(frames))
    shown = {"type": "image_url", "image_url": {"url": frames[0]}}
    assert "blue" in said(client, part(frames), shown, part(uri(BLUE)))


def test_responses_and_googles_api_take_videos(client: HttpClient) -> None:
    content = [
        {"type": "input_video", "video_url": uri(BLUE)},
        {"type": "input_text", "text": WHAT},
    ]
    asked = {"model": SEEING.name, "max_output_tokens": 12, "temperature": 0}
    reply = client.post("/v3/responses", input=[{"role": "user", "content": content}], **asked)
    assert "blue" in reply.json["output"][0]["content"][0]["text"]
    data = base64.b64encode(BOTH).decode()
    for start, end, colour in (("0s", "1s", "red"), ("1.2s", None, "blue")):
        metadata = {"fps": 4, "startOffset": start, **({"endOffset": end} if end else {})}
        blob = {"inlineData": {"mimeType": "video/mp4", "data": data}, "videoMetadata": metadata}
        contents = [{"role": "user", "parts": [blob, {"text": WHAT}]}]
        path = f"/v1beta/models/{SEEING.name}:generateContent"
        reply = client.post(path, contents=contents, generationConfig={"temperature": 0})
        assert reply.status == 200, reply.body
        assert colour in reply.json["candidates"][0]["content"]["parts"][0]["text"]


@pytest.mark.parametrize(
    ("given", "place", "why"),
    [
        (part(data_uri(b"#EXTM3U\nfile:///etc/passwd\n")), ".video_url.url", "is not a video"),
        (part(data_uri(BOTH[:500])), ".video_url.url", "broken|no pictures"),
        (part("data:video/mp4;base64,"), ".video_url.url", "not a video"),
        (part("../a.mp4"), ".video_url.url", '".."'),
        (part("https://example.com/a.mp4"), ".video_url.url", "videos from the web are off"),
        (part([]), ".video_url.url", "expected 1 to 64 frames"),
        (part(["x"] * 65), ".video_url.url", "expected 1 to 64 frames, not 65"),
        (part(["missing.png"]), ".video_url.url[0]", "no such file"),
        (part([1]), ".video_url.url[0]", "a string"),
        (part(5), ".video_url.url", "a string or an array"),
        (part("a", fps=0), ".fps", "frames per second above 0"),
        (part("a", fps="many"), ".fps", "frames per second above 0"),
        ({"type": "video_url"}, ".video_url", "missing|required"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(
    client: HttpClient, given: dict[str, Any], place: str, why: str
) -> None:
    reply = chat(client, given)
    assert (reply.status, reply.error["param"]) == (400, PART + place)
    assert re.search(why, reply.error["message"])


def test_a_model_that_takes_none_and_too_many_are_refused(client: HttpClient) -> None:
    reply = chat(client, part(uri(RED)), model=DEMO.name)
    assert (reply.status, reply.error["param"]) == (400, PART)
    assert "does not take videos" in reply.error["message"]
    reply = chat(client, *[part("a")] * 5)
    assert (reply.status, reply.error["param"]) == (400, "messages[0].content[4]")
    assert "only 4 videos are allowed" in reply.error["message"]
    content = [part(uri(RED, seconds=40, size=(640, 480)))]
    messages = [{"role": "user", "content": content}]
    asked = {"model": SEEING.name, "n": 8, "temperature": 1, "max_tokens": 4}
    reply = client.post(CHAT, messages=messages, **asked)
    assert (reply.status, reply.error["param"]) == (400, "n")


def test_hostile_videos_end_no_process(server: ServerProcess, tmp_path: Path) -> None:
    before = server.client.get("/v2/health/ready").status
    for place in range(40, len(BOTH), 97):
        broken = bytearray(BOTH)
        broken[place : place + 8] = b"\xff" * 8
        reply = chat(server.client, part(data_uri(bytes(broken))))
        assert reply.status in (200, 400), reply.body
    assert (before, server.client.get("/v2/health/ready").status) == (200, 200)
    assert "red" in said(server.client, part(uri(RED)))
