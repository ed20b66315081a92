"""Attacks that are requests over HTTP.

A new one is a row in `REQUEST_ATTACKS`: a name, the maker of its requests, and the allowed answers.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from typing import Any, Final

import PIL.Image

from tests.process.hostile_structures import history, nested, schema
from tests.process.http_client import CHAT, COMPLETIONS, HELLO
from tests.reliability.hostile.attack import EITHER, Attack, Post, chat, post, posts

_MIB: Final = 2**20
_RESPONSES: Final = "/v3/responses"
_MESSAGES: Final = "/v3/messages"
_TOKENIZE: Final = "/v3/tokenize"
_SURROGATE: Final = '{"a":"\\ud800"}'

#: The server may refuse it before all was sent.
_LEFT: Final = frozenset({"left", "closed without an answer"})

#: A valid body for each endpoint that takes JSON.
_BODIES: Final[dict[str, dict[str, Any]]] = {
    CHAT: {"model": "demo", "messages": HELLO, "max_tokens": 2},
    COMPLETIONS: {"model": "demo", "prompt": "Hello", "max_tokens": 2},
    _RESPONSES: {"model": "demo", "input": "Hello", "max_output_tokens": 2},
    _MESSAGES: {"model": "demo", "messages": HELLO, "max_tokens": 2},
    f"{_MESSAGES}/count_tokens": {"model": "demo", "messages": HELLO},
    _TOKENIZE: {"model": "demo", "text": "Hello"},
    "/v2/models/flowers/infer": {
        "inputs": [
            {"name": "measurements", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}
        ]
    },
    "/v2/models/demo/generate": {"text_input": "Hello", "max_tokens": 2},
}


def _tool(parameters: object, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _required(*tools: dict[str, Any]) -> Post:
    return chat(tools=tools, tool_choice="required")


def _wide(letters: int, branches: int) -> dict[str, Any]:
    """Return an object whose one property has a long name and many alternatives."""
    return {"type": "object", "properties": {"k" * letters: {"anyOf": [{}] * branches}}}


def _patterns(count: int, letters: int) -> dict[str, Any]:
    pattern = {"type": "string", "pattern": "a" * letters}
    return {"type": "object", "properties": {f"p{number}": pattern for number in range(count)}}


def _pictures(*sizes: tuple[int, int]) -> Post:
    """Return a chat with pictures of one colour, which have a few kilobytes."""
    parts: list[dict[str, Any]] = []
    for size in sizes:
        file = io.BytesIO()
        PIL.Image.new("1", size).save(file, "PNG")
        url = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return chat(model="shapes_vlm", messages=[{"role": "user", "content": parts}])


def _ranked() -> Post:
    documents = ["ab " * 550] * 10_000
    return post("/v3/rerank", {"model": "docs_ranker", "query": "Hi", "documents": documents})


def _embedded() -> Post:
    return post("/v3/embeddings", {"model": "docs_embedder", "input": [[5] * 500] * 2048})


def _surrogates() -> Iterator[Post]:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": _SURROGATE}
    output = {"type": "function_call_output", "call_id": "a", "output": "x"}
    user = {"role": "user", "content": "x"}
    lone = {"role": "user", "content": "\ud800"}
    used = {"type": "tool_use", "id": "a", "name": "f", "input": {"a": "\ud800"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
    turn = [
        user,
        {"role": "assistant", "content": [used]},
        {"role": "user", "content": [result]},
    ]
    for _ in range(3):
        yield chat(messages=history(_SURROGATE))
        yield post(_RESPONSES, {"model": "demo", "input": [user, call, output]})
        yield chat(messages=[lone])
        yield chat(messages=HELLO, tools=[_tool({"type": "object", "description": "\ud800"})])
        yield post(_MESSAGES, {"model": "demo", "max_tokens": 2, "messages": turn})
        yield post(COMPLETIONS, {"model": "demo", "prompt": "\ud800", "max_tokens": 2})
        yield post(_TOKENIZE, {"model": "demo", "text": "\ud800"})


def _expressions(count: int) -> Iterator[Post]:
    """Return distinct regular expressions of a kilobyte whose automata take long to make."""
    for number in range(count):
        part = f"(x{number}[a-z]{{0,9}}|[a-f]{{0,9}}y{number})*"
        yield chat(guided_regex=part * (1000 // len(part)))


def _forms(count: int, forms: int) -> Iterator[Post]:
    """Return structured requests of ``count`` forms, in turn."""
    for number in range(count):
        properties = {
            f"{letter}{number % forms}": {"type": "string", "maxLength": 3} for letter in "abc"
        }
        form = {"type": "object", "properties": properties, "required": list(properties)}
        yield chat(**schema(form), max_tokens=8)


def _parts(count: int) -> Post:
    part = {"type": "text", "text": "a" * 30}
    return chat(messages=[{"role": "user", "content": [part] * count}])


def _padded(size: int, **members: Any) -> Post:
    """Return a valid request that is mostly space."""
    body = json.dumps({"model": "demo", "messages": HELLO, "max_tokens": 60, **members})
    return post(CHAT, "{" + " " * (size - len(body)) + body[1:])


def _references() -> Iterator[Post]:
    for pointer in ("#/anyOf/00", "#/anyOf/" + "1" * 5000, "#/anyOf/-0", "#/anyOf/\u0661"):
        form = {"anyOf": [{"type": "string"}, {"$ref": pointer}]}
        yield chat(**schema(form))
        yield _required(_tool({"type": "object", "properties": {"a": form}}))


def _with_end(end: bytes) -> Iterator[Post]:
    for path, body in _BODIES.items():
        yield post(path, json.dumps(body).encode() + end)


def _deep(depth: int) -> Iterator[Post]:
    for path, body in _BODIES.items():
        text = json.dumps({**body, "metadata": "@"})
        yield post(path, text.replace('"@"', nested(depth)))
        yield post(path, text.replace('"@"', nested(depth, '{"a":', "}")))
        yield post(path, nested(depth))


def _texts(count: int) -> Post:
    return post(_TOKENIZE, {"model": "demo", "text": ["a"] * count})


def _large_templates() -> Iterator[Post]:
    large = {"big": "x" * (7 * _MIB)}
    yield chat(chat_template="{{ messages }}" * 1000)
    yield chat(chat_template_kwargs=large)
    yield chat(chat_template_kwargs={"deep": json.loads(nested(300))})


REQUEST_ATTACKS: Final = (
    Attack("lone surrogates", posts(_surrogates, at_once=1)),
    Attack(
        "a tool schema of 160 kB",
        posts(lambda: [_required(_tool(_wide(100_000, 20_000)))] * 2),
        EITHER,
    ),
    Attack(
        "a tool schema of 300,000 letters x 40,000 alternatives",
        posts(lambda: [_required(_tool(_wide(300_000, 40_000)))]),
        EITHER,
    ),
    Attack(
        "the same as an answer's schema",
        posts(lambda: [chat(**schema(_wide(300_000, 40_000)))]),
        EITHER,
    ),
    Attack(
        "1,980 patterns of 4 kB in a tool",
        posts(lambda: [_required(_tool(_patterns(1980, 4000)))]),
        EITHER,
    ),
    Attack(
        "1,980 patterns of 4 kB in an answer's schema",
        posts(lambda: [chat(**schema(_patterns(1980, 4000)))]),
        EITHER,
    ),
    Attack(
        "100 tools of 70 kB",
        posts(lambda: [_required(*(_tool(_patterns(17, 4000), f"f{i}") for i in range(100)))] * 2),
        EITHER,
    ),
    Attack(
        "30,000 parts of text, 20 clients that leave",
        posts(lambda: [_parts(30_000)] * 20, at_once=20, leaves=True),
        _LEFT,
    ),
    Attack("30,000 parts of text, read", posts(lambda: [_parts(30_000)] * 4), EITHER),
    Attack(
        "tokenize 8 MiB",
        posts(lambda: [post(_TOKENIZE, {"model": "demo", "text": "ab " * 2_790_000})] * 3),
        EITHER,
    ),
    Attack("tokenize 1,000,000 texts", posts(lambda: [_texts(1_000_000)] * 2), EITHER),
    Attack("count the tokens of 8 MiB", posts(
        lambda: [post(f"{_MESSAGES}/count_tokens", {
            "model": "demo", "messages": [{"role": "user", "content": "ab " * 2_790_000}],
        })] * 3), EITHER),
    Attack(
        "69 regular expressions of 1 kB at once",
        posts(lambda: _expressions(69), at_once=69),
        EITHER,
    ),
    Attack(
        "69 regular expressions, clients that leave",
        posts(lambda: _expressions(69), at_once=69, leaves=True),
        _LEFT,
    ),
    Attack(
        "30 bodies of 8 MiB: text",
        posts(
            lambda: [chat(messages=[{"role": "user", "content": "ab " * 2_790_000}])] * 30,
            at_once=30,
        ),
        EITHER,
    ),
    Attack(
        "30 bodies of 8 MiB: mostly space",
        posts(lambda: [_padded(8 * _MIB)] * 30, at_once=30),
        EITHER,
    ),
    Attack(
        "structured requests of 32 forms",
        posts(lambda: _forms(320, 32)),
        frozenset({"200", "429", "503"}),
    ),
    Attack("references that are not numbers", posts(_references, at_once=1)),
    Attack("a NUL after the body", posts(lambda: _with_end(b"\0"), at_once=1)),
    Attack("a NUL and more after the body", posts(lambda: _with_end(b'\0: "a"}'), at_once=1)),
    Attack("JSON of 1,000 levels", posts(lambda: _deep(1000), at_once=1)),
    Attack("JSON of 300,000 levels", posts(lambda: _deep(300_000), at_once=1)),
    Attack(
        "a role that is none",
        posts(lambda: [chat(messages=[{"role": "usr", "content": "Hello"}])]),
    ),
    Attack(
        "templates and their values from requests",
        posts(_large_templates, at_once=1),
        EITHER,
    ),
    Attack(
        "16 completions with best_of 16, which fill an engine",
        posts(
            lambda: [
                post(
                    COMPLETIONS,
                    {
                        "model": "demo",
                        "prompt": "Hello",
                        "best_of": 16,
                        "max_tokens": 200,
                        "temperature": 1,
                        "ignore_eos": True,
                    },
                )
            ]
            * 16,
            at_once=16,
        ),
        EITHER,
    ),
    Attack(
        "best_of 20 without max_tokens",
        posts(
            lambda: [
                post(
                    path,
                    {"model": "demo", **what, "best_of": 20, "temperature": 1, "ignore_eos": True},
                )
                for path, what in (
                    (CHAT, {"messages": HELLO}),
                    (COMPLETIONS, {"prompt": "Hello"}),
                )
            ]
        ),
        EITHER,
    ),
    Attack("16 pictures of 5,000 x 5,000",
           posts(lambda: [_pictures((5_000, 5_000))] * 16, at_once=16), EITHER, most_left=32),
    Attack("16 pairs of pictures just below the most pixels",
           posts(lambda: [_pictures((4_999, 5_000), (5_000, 4_999))] * 16, at_once=16), EITHER,
           most_left=32),
    Attack("16 pictures just above the most pixels",
           posts(lambda: [_pictures((5_001, 5_000))] * 16, at_once=16)),
    Attack("16 Mi characters to rank, 4 clients that leave",
           posts(lambda: [_ranked()] * 4, leaves=True), EITHER | _LEFT, most_left=64),
    Attack("16 Mi characters to rank, read", posts(lambda: [_ranked()] * 2), EITHER, most_left=64),
    Attack("a million token ids to embed, 4 clients that leave",
           posts(lambda: [_embedded()] * 4, leaves=True), EITHER | _LEFT, most_left=64),
    Attack("a million token ids to embed, read",
           posts(lambda: [_embedded()] * 2), EITHER, most_left=64),
)  # fmt: skip
