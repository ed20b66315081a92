"""The server's published document is true: its examples work, and answers fit their schemas."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from calculators.kit.tasks import default_task, endpoint_paths
from servers.fronts.http import HttpSettings
from servers.fronts.openapi.document import openapi_document
from tests.process.http_client import HELLO, HttpClient, Reply
from tests.process.server_process import ServerProcess
from tests.servers.fronts.openapi.described import Described

DESCRIBED: Final = Described()
_LANGUAGE_MODELS: Final = default_task()
assert _LANGUAGE_MODELS is not None
#: Paths that only other models answer; their examples are tried where one is served.
OF_OTHER_TASKS: Final = endpoint_paths() - {
    path for endpoint in _LANGUAGE_MODELS.endpoints for path in endpoint.paths()
}
#: A stream without an end, a file whose name the page's build chooses, a request that was followed.
WITH_TESTS_OF_THEIR_OWN: Final = {"/v1/live", "/page/{file}", "/v1/requests/{request_id}"}
#: One request for every kind of answer with a schema of its own.
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}},
    },
}
_CHAT: Final[dict[str, Any]] = {"model": "demo", "messages": list(HELLO), "max_tokens": 12}
_TEXT: Final[dict[str, Any]] = {"model": "demo", "prompt": "Hello", "max_tokens": 4}
_INPUT: Final[dict[str, Any]] = {"model": "demo", "input": "Hello", "max_output_tokens": 12}
_FORCED: Final = {"tools": [_TOOL], "tool_choice": "required", "max_tokens": 60}
_FLAT: Final = {
    "tools": [{"type": "function", **_TOOL["function"]}],  # type: ignore[dict-item]
    "tool_choice": "required",
    "max_output_tokens": 60,
}
_MESSAGES_TOOL: Final = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}},
}
REQUESTS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("/v3/chat/completions", {**_CHAT, "logprobs": True, "n": 2}),
    ("/v3/chat/completions", {**_CHAT, **_FORCED}),
    ("/v3/chat/completions", {**_CHAT, "response_format": {"type": "json_object"}}),
    ("/v3/completions", {**_TEXT, "logprobs": 1, "echo": True}),
    ("/v3/completions", {**_TEXT, "prompt": [[1, 2], [3]], "stop": ["a", "b"]}),
    ("/v3/responses", {**_INPUT, "include": ["message.output_text.logprobs"]}),
    ("/v3/responses", {**_INPUT, **_FLAT, "metadata": {"a": "b"}}),
    ("/v3/messages", _CHAT),
    (
        "/v3/messages",
        {**_CHAT, "max_tokens": 60, "tools": [_MESSAGES_TOOL], "tool_choice": {"type": "any"}},
    ),
]
_CONTENTS: Final[dict[str, Any]] = {
    "contents": [{"parts": [{"text": "Hello"}]}],
    "generationConfig": {"maxOutputTokens": 60, "candidateCount": 2, "responseLogprobs": True},
}
_FUNCTIONS: Final = {
    "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
}
#: Requests to Google's methods, of which the path says whether the answer is a stream.
GOOGLE: Final[list[tuple[str, dict[str, Any]]]] = [
    ("/v1beta/models/{model}:generateContent", _CONTENTS),
    ("/v1beta/models/{model}:generateContent", {**_CONTENTS, **_FUNCTIONS}),
    ("/v1beta/models/{model}:streamGenerateContent", _CONTENTS),
    ("/v1beta/models/{model}:streamGenerateContent?alt=sse", {**_CONTENTS, **_FUNCTIONS}),
]
#: One request for each form of error.
REFUSED: Final[list[tuple[str, dict[str, Any], int]]] = [
    ("/v3/chat/completions", {"model": "demo"}, 400),
    ("/v3/chat/completions", {"model": "nobody", "messages": []}, 404),
    ("/v3/messages", {"model": "demo"}, 400),
    ("/v3/messages", {"model": "demo", "thread": 1, "messages": [], "max_tokens": 1}, 400),
    ("/v1beta/models/{model}:generateContent", {}, 400),
    ("/v1beta/models/{model}:streamGenerateContent", {"contents": 1}, 400),
    ("/v2/models/{model}/infer", {}, 400),
    ("/v2/repository/models/{model}/load", {"parameters": {"a": 1}}, 400),
]


def check(path: str, method: str, reply: Reply) -> None:
    content_type = reply.headers.get("content-type", "")
    DESCRIBED.check_answer(path, method, reply.status, content_type, reply.body)
    for name in DESCRIBED.answer(path, method, reply.status)["headers"]:
        if name == "X-Request-Id":
            assert reply.headers[name.lower()]


def test_the_document_is_published_and_can_be_cached(client: HttpClient) -> None:
    reply = client.get("/openapi.json")
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.json == json.loads(openapi_document(HttpSettings()))
    known = client.ask("GET", "/openapi.json", headers={"If-None-Match": reply.headers["etag"]})
    assert (known.status, known.body) == (304, b"")
    assert known.headers["etag"] == reply.headers["etag"]
    other = client.ask("GET", "/openapi.json", headers={"If-None-Match": '"other"'})
    assert other.status == 200


@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        pytest.param(*each, id=f"{each[0]}-{n}")
        for n, each in enumerate(DESCRIBED.examples())
        if each[0] not in OF_OTHER_TASKS
    ],
)
def test_the_examples_work(client: HttpClient, path: str, method: str, body: Any) -> None:
    reply = client.ask(method.upper(), path.format(model="demo", version="1"), body)
    assert reply.status == 200, reply.body
    check(path, method, reply)


@pytest.mark.parametrize("path", sorted({path for path, _ in REQUESTS}))
def test_an_integer_may_have_a_point(client: HttpClient, path: str) -> None:
    """1.0 is an integer for JSON Schema, and some libraries write it."""
    body = next(body for each, body in REQUESTS if each == path)
    media = DESCRIBED.document["paths"][path]["post"]["requestBody"]["content"]
    members = DESCRIBED.resolved(media["application/json"]["schema"])["properties"]
    integers = [name for name, member in members.items() if "integer" in member.get("type", ())]
    assert integers
    for name in integers:
        value = max(members[name].get("minimum", 0), 1)
        replies = [client.ask("POST", path, {**body, name: each}) for each in (value, float(value))]
        assert len({reply.status for reply in replies}) == 1, (name, replies[1].body)


@pytest.mark.parametrize(("path", "body"), REQUESTS)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_fit_their_schemas(
    client: HttpClient, path: str, body: dict[str, Any], stream: bool
) -> None:
    asked = {**body, "stream": stream}
    assert DESCRIBED.request_errors(path, asked) == []
    reply = client.ask("POST", path, asked)
    assert reply.status == 200, reply.body
    check(path, "post", reply)


@pytest.mark.parametrize(("target", "body"), GOOGLE)
def test_googles_answers_fit_their_schemas(
    client: HttpClient, target: str, body: dict[str, Any]
) -> None:
    path = target.partition("?")[0]
    assert DESCRIBED.request_errors(path, body) == []
    reply = client.ask("POST", target.format(model="demo"), body)
    assert reply.status == 200, reply.body
    check(path, "post", reply)


@pytest.mark.parametrize(("path", "body", "status"), REFUSED)
def test_errors_fit_their_schemas(
    client: HttpClient, path: str, body: dict[str, Any], status: int
) -> None:
    reply = client.ask("POST", path.format(model="demo"), body)
    assert reply.status == status, reply.body
    check(path, "post", reply)


@pytest.fixture(scope="module")
def kept(demo: ServerProcess) -> dict[str, str]:
    """Keep something of each kind, and return the names of its parts in paths."""
    client = demo.client
    conversation = client.post("/v3/conversations", items=list(HELLO)).json["id"]
    items = client.get(f"/v3/conversations/{conversation}/items").json["data"]
    return {
        "response_id": client.post("/v3/responses", **_INPUT).json["id"],
        "conversation_id": conversation,
        "item_id": items[0]["id"],
        "completion_id": client.post("/v3/chat/completions", **_CHAT, store=True).json["id"],
    }


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, method, _ in DESCRIBED.operations()
        if method == "get" and path not in OF_OTHER_TASKS and path not in WITH_TESTS_OF_THEIR_OWN
    ],
)
def test_lookups_fit_their_schemas(client: HttpClient, kept: dict[str, str], path: str) -> None:
    values = {
        **kept,
        "model": "demo",
        "version": "1",
        "node": "LLMExecutor",
        "calculator": "PassThroughCalculator",
    }
    reply = client.get(path.format_map(values))
    # The operator of this server does not show the tokenizer.
    assert reply.status == (404 if path == "/tokenizer_info" else 200), reply.body
    check(path, "get", reply)


@pytest.mark.parametrize("media", ["text/plain", "application/openmetrics-text"])
def test_metrics_have_two_forms(client: HttpClient, media: str) -> None:
    reply = client.ask("GET", "/metrics", headers={"Accept": media})
    assert (reply.status, reply.headers["content-type"].split(";")[0]) == (200, media)
    check("/metrics", "get", reply)
