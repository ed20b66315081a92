"""`examples/graphs/python_chat`, served: OpenAI's chat completions from a Python handler."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"

CLIENT = """
import sys
from openai import OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="unused")
messages = [{"role": "user", "content": "one two three"}]
answer = client.chat.completions.create(model="python_chat", messages=messages)
print(answer.choices[0].message.content, answer.choices[0].finish_reason)
stream = client.chat.completions.create(model="python_chat", messages=messages, stream=True)
print(*[chunk.choices[0].delta.content for chunk in stream], sep="|")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(ROOT, "examples/graphs/python_chat", calculators=()) as serving:
        yield serving.wait_until_serving()


def chat(server: Serving, **members: Any) -> tuple[int, str]:
    body = {"model": "python_chat", **members}
    with server.request("POST", CHAT, body) as response:
        return response.status, response.read().decode()


def test_the_command_of_the_comment_works() -> None:
    text = (ROOT / "examples/graphs/python_chat/graph.pbtxt").read_text(encoding="utf-8")
    assert "#   graphrt serve examples/graphs/python_chat\n" in text


def test_a_request_is_answered(server: Serving) -> None:
    status, text = chat(server, messages=[{"role": "user", "content": "one two three"}])
    answer = json.loads(text)
    assert status == 200
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "python_chat"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "three two one"},
            "finish_reason": "stop",
        }
    ]


def test_an_answer_is_streamed(server: Serving) -> None:
    messages = [{"role": "user", "content": "one two"}]
    status, text = chat(server, messages=messages, stream=True)
    assert status == 200
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == [
        "",
        "two",
        " one",
        None,
    ]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("messages", "param"), [([], "messages"), ([{"role": "user"}], "messages[0]")]
)
def test_a_refusal_of_the_handler_is_answered(
    server: Serving, messages: list[Any], param: str, stream: bool
) -> None:
    status, text = chat(server, messages=messages, stream=stream)
    assert status == 400
    assert json.loads(text)["error"]["param"] == param


def test_the_openai_client_gets_an_answer(server: Serving) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"http://127.0.0.1:{server.port}/v3"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["three two one stop", "|three| two| one|None"]
