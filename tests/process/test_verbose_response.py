"""``--verbose_response`` shows prompt and raw text beside every answer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.process.clients.asked import CHAT_TOOLS, NEEDS_TOOL
from tests.process.http_client import CHAT, COMPLETIONS, HELLO, HttpClient
from tests.process.server_process import DEMO, ServerProcess


@pytest.fixture(scope="module")
def verbose() -> Iterator[HttpClient]:
    with ServerProcess("--verbose_response", DEMO) as server:
        yield server.client


def test_a_chat_shows_prompt_and_raw_text(verbose: HttpClient) -> None:
    question = {"role": "user", "content": NEEDS_TOOL}
    body = verbose.post(CHAT, messages=[question], tools=CHAT_TOOLS, temperature=0).json
    assert body["choices"][0]["message"]["tool_calls"]
    shown = body["__verbose"]
    assert '"name": "get_weather"' in shown["prompt"]
    assert shown["prompt"].endswith(f"{NEEDS_TOOL}<|im_end|>\n<|im_start|>assistant\n")
    assert shown["content"].startswith("<tool_call>\n")


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (CHAT, {"messages": HELLO}),
        (COMPLETIONS, {"prompt": "Once upon a time"}),
        ("/v3/responses", {"input": "Hello"}),
        ("/v1/messages", {"messages": HELLO}),
    ],
)
def test_every_endpoint_shows_them_whole_and_streamed(
    verbose: HttpClient, path: str, asked: dict[str, object]
) -> None:
    limit = "max_output_tokens" if "responses" in path else "max_tokens"
    asked = {**asked, "temperature": 0, limit: 16}
    shown = verbose.post(path, **asked).json["__verbose"]
    assert set(shown) == {"prompt", "content"}
    assert shown["prompt"]
    assert shown["content"]
    with verbose.stream(path, **asked) as response:
        events = [line for line in response.read().decode().split("\n") if "__verbose" in line]
    (event,) = [json.loads(line.removeprefix("data: ")) for line in events]
    assert event.get("response", event)["__verbose"] == shown


def test_without_the_flag_they_are_hidden(client: HttpClient) -> None:
    assert "__verbose" not in client.post(CHAT, messages=HELLO, max_tokens=1).json
