"""Requests of clients over HTTP, and checks that answers are whole."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.process.http_client import CHAT, COMPLETIONS, HELLO
from tests.support.checkout import ROOT

_PICTURES: Final = ROOT / "examples" / "models" / "shapes_vlm" / "pictures"
#: Number of forms of answers that recur; every tenth request has a form of its own.
_FORMS: Final = 32

#: Refusals that a server under load may give.
BUSY: Final = frozenset({429, 503})


@dataclass(frozen=True)
class Asked:
    """A request. ``check`` receives a whole body of status 200 and raises if it is wrong."""

    kind: str
    path: str
    body: dict[str, Any]
    check: Callable[[bytes], object]


def any_request(random: Random) -> Asked:
    return random.choice(_KINDS)(random)


def _chat(random: Random) -> Asked:
    body = {"model": "demo", "messages": HELLO, **_length(random)}
    return Asked("chat", CHAT, body, _has("choices"))


def _chat_stream(random: Random) -> Asked:
    body = {"model": "demo", "messages": HELLO, "stream": True, **_length(random)}
    return Asked("chat, streamed", CHAT, body, _ends_with(b"data: [DONE]\n\n"))


def _completion_stream(random: Random) -> Asked:
    body = {"model": "demo", "prompt": "The graph", "stream": True, **_length(random)}
    return Asked("completion, streamed", COMPLETIONS, body, _ends_with(b"data: [DONE]\n\n"))


def _response_stream(random: Random) -> Asked:
    body = {
        "model": "demo",
        "input": "Hello",
        "stream": True,
        "max_output_tokens": random.randint(4, 60),
    }
    return Asked("response, streamed", "/v3/responses", body, _completed)


def _python_chat_stream(random: Random) -> Asked:
    messages = [{"role": "user", "content": "one two three " * random.randint(1, 20)}]
    body = {"model": "python_chat", "messages": messages, "stream": True}
    return Asked("Python chat, streamed", CHAT, body, _ends_with(b"data: [DONE]\n\n"))


def _flowers(random: Random) -> Asked:
    rows = random.randint(1, 64)
    data = [round(random.uniform(0.1, 7.0), 2) for _ in range(4 * rows)]
    return _infer("flowers", {"name": "measurements", "shape": [rows, 4], "data": data})


def _python_handler(random: Random) -> Asked:
    rows = random.randint(1, 16)
    data = [round(random.uniform(-3.0, 3.0), 2) for _ in range(3 * rows)]
    return _infer("python_handler", {"name": "scores", "shape": [rows, 3], "data": data})


def _structured(random: Random) -> Asked:
    body = {**_chat(random).body, "ignore_eos": False, "response_format": _form(random)}
    return Asked("structured chat", CHAT, body, _has("choices"))


def _structured_stream(random: Random) -> Asked:
    body = {**_chat_stream(random).body, "ignore_eos": False, "response_format": _form(random)}
    return Asked("structured chat, streamed", CHAT, body, _ends_with(b"data: [DONE]\n\n"))


def _tools(random: Random) -> Asked:
    called = {"tools": _tool_list(random), "tool_choice": random.choice(("auto", "required"))}
    body = {**_chat(random).body, "ignore_eos": False, **called}
    return Asked("chat with tools", CHAT, body, _has("choices"))


def _tools_stream(random: Random) -> Asked:
    called = {"tools": _tool_list(random), "tool_choice": "required"}
    body = {**_chat_stream(random).body, "ignore_eos": False, **called}
    return Asked("chat with tools, streamed", CHAT, body, _ends_with(b"data: [DONE]\n\n"))


def _picture(random: Random) -> Asked:
    data = base64.b64encode(random.choice(sorted(_PICTURES.iterdir())).read_bytes()).decode()
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
        {"type": "text", "text": "What is in the picture?"},
    ]
    messages = [{"role": "user", "content": parts}]
    body = {"model": "shapes_vlm", "messages": messages, "max_tokens": random.randint(4, 40)}
    return Asked("chat about a picture", CHAT, body, _has("choices"))


def _generate_stream(random: Random) -> Asked:
    body = {"text_input": "Hello", "chat": True, "max_tokens": random.randint(4, 60)}
    path = "/v2/models/demo/generate_stream"
    return Asked("generate_stream", path, body, _ends_with(b"\n\n"))


_KINDS: Final = (
    _chat,
    _chat_stream,
    _chat_stream,
    _completion_stream,
    _response_stream,
    _python_chat_stream,
    _flowers,
    _flowers,
    _python_handler,
    _generate_stream,
    _structured,
    _structured_stream,
    _tools,
    _tools_stream,
    _picture,
)


def _schema(random: Random) -> dict[str, Any]:
    """Return the schema of an object."""
    number = random.randrange(10**9) if random.random() < 0.1 else random.randrange(_FORMS)
    properties = {
        f"name{number}": {"type": "string", "maxLength": 5 + number % 20},
        f"count{number}": {"type": "integer", "minimum": number},
        f"kind{number}": {"enum": [f"a{number}", f"b{number}"]},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _form(random: Random) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": _schema(random)}}


def _tool_list(random: Random) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"f{place}", "parameters": _schema(random)}}
        for place in range(random.randint(1, 3))
    ]


def _length(random: Random) -> dict[str, Any]:
    """Return a length, mostly short, sometimes long."""
    return {
        "max_tokens": random.choice((4, 16, 16, 40, 40, 120, 400)),
        "ignore_eos": random.random() < 0.5,
    }


def _infer(model: str, tensor: dict[str, Any]) -> Asked:
    body = {"inputs": [{"datatype": "FP32", **tensor}]}
    return Asked(f"infer {model}", f"/v2/models/{model}/infer", body, _has("outputs"))


def _has(member: str) -> Callable[[bytes], object]:
    return lambda body: json.loads(body)[member]


def _ends_with(end: bytes) -> Callable[[bytes], object]:
    def check(body: bytes) -> None:
        assert b'"error"' not in body, body[-300:]
        assert body.endswith(end), body[-300:]

    return check


def _completed(body: bytes) -> None:
    last = body.rstrip(b"\n").rpartition(b"event: ")[2]
    names = (b"response.completed", b"response.incomplete", b"data: [DONE]")
    assert last.startswith(names) or body.endswith(b"data: [DONE]\n\n"), body[-300:]
    assert b"event: response.failed" not in body, body[-300:]
