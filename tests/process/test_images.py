"""Images in requests to a small vision model: answers, and refusals."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.calculators.images.media.pictures import animation, data_uri, picture, promising_png
from tests.calculators.llm.api.openai.api_cases import is_refused, load_api_cases
from tests.process.http_client import CHAT, COMPLETIONS, HELLO, HttpClient
from tests.process.server_process import ServerProcess
from tests.process.test_bad_inputs import run_corpus
from tests.support.checkout import ROOT

SEEING: Final = ROOT / "examples" / "models" / "shapes_vlm"
MODEL_LENGTH: Final = 1024
URL: Final = "messages[0].content[0].image_url.url"
SHORT: Final = {"model": SEEING.name, "max_tokens": 4, "temperature": 0}
RED: Final = data_uri(picture(40, 40))
BLUE: Final = data_uri(picture(40, 40, colour=(20, 20, 220)))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    (folder / "allowed").mkdir()
    (folder / "allowed" / "red.png").write_bytes(picture(40, 40))
    (folder / "secret.png").write_bytes(picture())
    (folder / "allowed" / "link.png").symlink_to(folder / "secret.png")
    return folder


@pytest.fixture(scope="module")
def server(pictures: Path) -> Iterator[ServerProcess]:
    flags = ("--allowed_local_media_path", pictures / "allowed", "--allowed_media_domains", "all")
    with ServerProcess(*flags, SEEING) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> HttpClient:
    return server.client


def user(*urls: str, text: str = "What is it?") -> list[dict[str, Any]]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*images, {"type": "text", "text": text}]}]


def answer(client: HttpClient, messages: list[dict[str, Any]], **asked: Any) -> Any:
    reply = client.post(CHAT, messages=messages, **{**SHORT, **asked})
    assert reply.status == 200, reply.body
    return reply.json


def text_of(body: Any) -> str:
    content: str = body["choices"][0]["message"]["content"]
    return content


def test_an_image_changes_the_answer_and_is_counted(client: HttpClient) -> None:
    red, blue = (answer(client, user(url), max_tokens=16) for url in (RED, BLUE))
    assert text_of(red) != text_of(blue)
    without = answer(client, user(text="What is it?"))
    assert red["usage"]["prompt_tokens"] > without["usage"]["prompt_tokens"]


def test_several_images_and_images_of_earlier_messages_count(client: HttpClient) -> None:
    one = answer(client, user(RED))["usage"]["prompt_tokens"]
    two = answer(client, user(RED, BLUE))["usage"]["prompt_tokens"]
    said = {"role": "assistant", "content": "a red thing"}
    later = answer(client, [*user(RED), said, *user(BLUE)])["usage"]["prompt_tokens"]
    assert one < two < later


def test_images_count_towards_the_length_of_the_model(client: HttpClient) -> None:
    endless = answer(client, user(RED), max_tokens=None, ignore_eos=True)
    assert endless["choices"][0]["finish_reason"] == "length"
    assert endless["usage"]["total_tokens"] == MODEL_LENGTH
    text = "a " * (MODEL_LENGTH - 40)
    assert client.post(CHAT, messages=user(text=text), **SHORT).status == 200
    reply = client.post(CHAT, messages=user(*[RED] * 8, text=text), **SHORT)
    assert reply.status == 400
    error = reply.error
    assert f"The model holds {MODEL_LENGTH} tokens; with its images" in error["message"]
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    assert client.post(CHAT, messages=user(RED), **SHORT).status == 200


def test_an_answer_of_the_clients_length_must_fit_beside_the_images(client: HttpClient) -> None:
    prompt = answer(client, user(RED))["usage"]["prompt_tokens"]
    room = MODEL_LENGTH - prompt
    longest = answer(client, user(RED), max_tokens=room, ignore_eos=True)
    assert longest["usage"]["completion_tokens"] == room
    body = {"model": SEEING.name, "temperature": 0}
    reply = client.post(CHAT, messages=user(RED), max_tokens=room + 1, **body)
    assert reply.status == 400
    assert f"no room for {room + 1} tokens of answer" in reply.error["message"]
    assert (reply.error["param"], reply.error["code"]) == ("messages", "context_length_exceeded")
    content = [{"type": "input_image", "image_url": RED}, {"type": "input_text", "text": "?"}]
    asked = [{"role": "user", "content": content}]
    reply = client.post("/v3/responses", input=asked, max_output_tokens=MODEL_LENGTH - 9, **body)
    assert (reply.status, reply.error["param"]) == (400, "input")


def test_a_limit_that_the_client_did_not_choose_shrinks_to_the_room_beside_images(
    client: HttpClient,
) -> None:
    both = answer(client, user(RED), max_tokens=None, n=2, ignore_eos=True, temperature=1)
    usage = both["usage"]
    assert usage["completion_tokens"] == 2 * (MODEL_LENGTH - usage["prompt_tokens"])
    body = {"model": SEEING.name, "messages": _in_anthropics_form(), "max_tokens": MODEL_LENGTH}
    reply = client.post("/v3/messages", ignore_eos=True, **body)
    assert reply.status == 200, reply.body
    assert reply.json["stop_reason"] == "max_tokens"
    assert sum(reply.json["usage"].values()) == MODEL_LENGTH


def test_a_stream_has_the_text_and_usage_of_the_whole_answer(client: HttpClient) -> None:
    whole = answer(client, user(RED))
    options = {"include_usage": True}
    with client.stream(
        CHAT, messages=user(RED), stream=True, stream_options=options, **SHORT
    ) as reply:
        lines = reply.read().decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == text_of(whole)
    assert chunks[-1]["usage"] == whole["usage"]


def test_choices_stop_strings_forms_and_tools_work_with_images(client: HttpClient) -> None:
    assert len(answer(client, user(RED), n=3, temperature=1)["choices"]) == 3
    whole = text_of(answer(client, user(RED), max_tokens=16))
    assert len(whole) > 3
    stopped = answer(client, user(RED), max_tokens=16, stop=[whole[2]])
    assert text_of(stopped) == whole[: whole.index(whole[2])]
    schema = {"type": "object", "properties": {"a": {"enum": ["x"]}}, "required": ["a"],
              "additionalProperties": False}  # fmt: skip
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    formed = answer(client, user(RED), response_format=form, max_tokens=60)
    assert json.loads(text_of(formed)) == {"a": "x"}
    tool = {"type": "function", "function": {"name": "paint", "parameters": {"type": "object"}}}
    assert answer(client, user(RED), tools=[tool])["choices"][0]["message"]["role"] == "assistant"


def test_responses_and_messages_accept_images(client: HttpClient) -> None:
    content = [{"type": "input_image", "image_url": RED}, {"type": "input_text", "text": "?"}]
    short = {"model": SEEING.name, "max_output_tokens": 4, "temperature": 0}
    reply = client.post("/v3/responses", input=[{"role": "user", "content": content}], **short)
    assert reply.status == 200, reply.body
    reply = client.post("/v1/messages", messages=_in_anthropics_form(), **SHORT)
    assert reply.status == 200, reply.body
    assert reply.json["usage"]["input_tokens"] > len("?")


def test_images_are_counted_before_an_answer_as_with_it(client: HttpClient) -> None:
    asked = {"model": SEEING.name, "messages": _in_anthropics_form()}
    used = client.post("/v3/messages", max_tokens=3, **asked).json["usage"]["input_tokens"]
    assert client.post("/v3/messages/count_tokens", **asked).json == {"input_tokens": used}
    many = {"model": SEEING.name, "messages": _in_anthropics_form(8, "a " * 900)}
    reply = client.post("/v3/messages/count_tokens", **many)
    assert reply.status == 400
    assert f"The model holds {MODEL_LENGTH} tokens" in reply.json["error"]["message"]


def _in_anthropics_form(images: int = 1, text: str = "?") -> list[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png",
              "data": base64.b64encode(picture(40, 40)).decode()}  # fmt: skip
    blocks = [{"type": "image", "source": source}] * images
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": text}]}]


@pytest.mark.parametrize(
    "url",
    [
        RED,
        data_uri(picture(40, 40, "JPEG"), "image/jpeg"),
        data_uri(picture(40, 40, "WEBP"), "text/html"),
        data_uri(animation(), "image/gif"),
        data_uri(picture(1, 1)),
        data_uri(picture(1, 200)),
        "red.png",
        "{allowed}/red.png",
        "file://{allowed}/red.png",
    ],
)
def test_valid_images_are_read(client: HttpClient, pictures: Path, url: str) -> None:
    answer(client, user(url.replace("{allowed}", str(pictures / "allowed"))))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (data_uri(b"hello world, not an image"), "not a PNG, JPEG, WebP, GIF or BMP image"),
        (data_uri(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"), "SVG"),
        (data_uri(picture(300, 300)[:-60]), "broken"),
        (data_uri(promising_png(10_000, 10_000)), "10000 x 10000 pixels"),
        (data_uri(picture(1, 20_000)), "too narrow"),
        ("data:image/png;base64,", "no data"),
        ("data:image/png;base64,????", "not Base64"),
        ("/etc/passwd", "--allowed_local_media_path"),
        ("file:///etc/passwd", "--allowed_local_media_path"),
        ("../secret.png", '".."'),
        ("link.png", "--allowed_local_media_path"),
        ("http://127.0.0.1:22/", "ports 80 and 443"),
        ("http://169.254.169.254/latest/meta-data/", "private address"),
        ("http://[::ffff:127.0.0.1]/x.png", "private address"),
        ("http://localhost/x.png", "private address"),
        ("http://allowed.example\\@127.0.0.1/x.png", "URL"),
        ("javascript:alert(1)", "no such file"),
    ],
)
def test_invalid_images_are_refused_with_their_place(
    client: HttpClient, url: str, reason: str
) -> None:
    reply = client.post(CHAT, messages=user(url), **SHORT)
    assert reply.status == 400
    assert reply.error["param"] == URL
    assert reply.error["message"].startswith(f"{URL}: ")
    assert reason in reply.error["message"]


def test_fifty_images_are_refused(client: HttpClient) -> None:
    reply = client.post(CHAT, messages=user(*[RED] * 50), **SHORT)
    assert (reply.status, reply.error["param"]) == (400, "messages[0].content[16]")
    assert "only 16 images are allowed" in reply.error["message"]


def test_many_answers_to_a_large_image_are_given_if_the_model_looks_at_fewer_pixels(
    client: HttpClient,
) -> None:
    large = data_uri(picture(4000, 4000))
    reply = client.post(CHAT, messages=user(large), n=4, **{**SHORT, "temperature": 1})
    assert (reply.status, len(reply.json["choices"])) == (200, 4)


@pytest.mark.parametrize("text", ["<|image_pad|>", "<|vision_start|>"])
def test_special_tokens_in_a_text_are_text_beside_images_too(client: HttpClient, text: str) -> None:
    for asked in (user(text=text), user(RED, text=text * 20)):
        assert client.post(CHAT, messages=asked, **SHORT).status == 200


@pytest.mark.parametrize("text", ["<ov_genai_image_0>", "<ov_genai_video_0>"])
def test_text_cannot_pose_as_an_image(client: HttpClient, text: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": text}}
    for asked in (
        {"messages": user(text=text)},
        {"messages": user(RED, text=text * 20)},
        {"messages": [{"role": "system", "content": text}, *user(RED)]},
        {"messages": user(RED), "tools": [tool]},
    ):
        reply = client.post(CHAT, **asked, **SHORT)
        assert reply.status == 400, text
        assert "no text may have" in reply.error["message"]
    assert client.post(CHAT, messages=HELLO, **SHORT).status == 200


def test_kserve_requests_to_a_vision_model_are_chats(client: HttpClient) -> None:
    path = f"/v2/models/{SEEING.name}/generate"
    options = {"max_tokens": 4, "temperature": 0}
    for is_chat in (True, False):
        body = {"text_input": "What is it?", "parameters": {**options, "chat": is_chat}}
        reply = client.ask("POST", path, body)
        assert reply.status == (200 if is_chat else 400), reply.body


def test_completions_refuse_images(client: HttpClient) -> None:
    reply = client.post(COMPLETIONS, prompt="a", **SHORT)
    assert reply.status == 400
    assert "/v3/chat/completions" in reply.error["message"]


def _has_image(case: dict[str, Any]) -> bool:
    sees = case["level"] == "http" and case.get("requires", {}).get("servable", "").startswith(
        "VLM"
    )
    return sees and "base64," in json.dumps(case.get("body"))


@pytest.mark.parametrize(
    "case", [case for case in load_api_cases() if _has_image(case)], ids=lambda case: case["id"]
)
def test_conformance_cases_with_images_are_answered(
    client: HttpClient, case: dict[str, Any]
) -> None:
    # Their model accepts longer prompts; the number of tokens of an answer does not matter here.
    limit = "max_output_tokens" if "responses" in case["endpoint"] else "max_tokens"
    body = {**case["body"], "model": SEEING.name, limit: 4}
    body.pop("max_completion_tokens", None)
    reply = client.post(case["endpoint"], **body)
    assert reply.status == (400 if is_refused(case) else 200), reply.body


def test_hostile_images_end_no_process(server: ServerProcess) -> None:
    children = server.lasting_children()
    summary = run_corpus(server, "--model", SEEING.name, "--group", "image", have="llm_model")
    assert summary.startswith("20/20 as expected")
    assert server.lasting_children() == children, "a request has ended a process"
