"""Prompts that are expensive or crash the prompt process: no other client waits for long."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import pytest

from tests.process.http_client import CHAT, HELLO, Reply
from tests.process.server_process import PROMPTS, ServerProcess
from tests.support.conditions import wait_until

LONG_PROMPTS = "calculators.llm.prompt.long_process"
HALF = r'{"a": "\ud800"}'


def answers(server: ServerProcess) -> Reply:
    reply = server.client.post(CHAT, messages=HELLO, max_tokens=1)
    assert reply.status == 200, reply.body
    return reply


def function(arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "arguments": arguments}}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("path", "members", "param"),
    [
        (
            CHAT,
            {
                "messages": [
                    *HELLO,
                    {"role": "assistant", "content": "", "tool_calls": [function(HALF)]},
                ]
            },
            "messages[1].tool_calls[0].function.arguments",
        ),
        (
            "/v3/responses",
            {
                "input": [
                    {"role": "user", "content": "Hi"},
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": HALF},
                ]
            },
            "input[1].arguments",
        ),
        (CHAT, {"messages": HELLO, "guided_json": r'{"const": "\ud800"}'}, "guided_json"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_place(
    demo: ServerProcess, path: str, members: dict[str, Any], param: str
) -> None:
    process = demo.child(PROMPTS)
    reply = demo.client.post(path, **members)
    assert reply.status == 400, reply.body
    assert reply.error["param"] == param
    assert demo.child(PROMPTS) == process
    answers(demo)


def test_a_short_prompt_is_answered_while_the_process_for_long_ones_is_stopped(
    demo: ServerProcess,
) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 20_000}], "max_tokens": 1}
    assert demo.client.post(CHAT, **body).status == 400  # longer than the model
    answered: list[Reply] = []
    with stopped(demo.child(LONG_PROMPTS)):
        asking = threading.Thread(target=lambda: answered.append(demo.client.post(CHAT, **body)))
        asking.start()
        for _ in range(5):
            answers(demo)
        assert not answered
    asking.join()
    assert answered[0].status == 400


def test_a_prompt_process_that_was_stopped_briefly_refuses_no_request(
    demo: ServerProcess,
) -> None:
    process = demo.child(PROMPTS)
    answered: list[Reply] = []
    asking = threading.Thread(target=lambda: answered.append(answers(demo)))
    with stopped(process):
        asking.start()
    asking.join()
    assert answered
    assert demo.child(PROMPTS) == process


def test_tokens_are_limited_in_text_and_in_number(demo: ServerProcess) -> None:
    for text, told in (
        ("x" * (2**20 + 1), "1048577 characters"),
        (["x"] * 1025, "1025 texts"),
    ):
        reply = demo.client.post("/v3/tokenize", text=text)
        assert reply.status == 400
        assert reply.error["param"] == "text"
        assert told in reply.error["message"]
    reply = demo.client.post("/v3/tokenize", text=["Hello"] * 1024)
    assert [len(each) for each in reply.json["tokens"]] == [len(reply.json["tokens"][0])] * 1024


def test_requests_of_departed_clients_delay_no_other(demo: ServerProcess) -> None:
    content = [{"type": "text", "text": "x" * 70}] * 30_000
    body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": content}]})
    for _ in range(20):
        connection = HTTPConnection(demo.url.removeprefix("http://"), timeout=60)
        connection.request("POST", CHAT, body, {"Content-Type": "application/json"})
        connection.close()
    for _ in range(3):
        answers(demo)
    wait_until(demo.is_ready, "ready")
