"""Ollama's API at the front: names, lines, the lists of models, and what is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from calculators.kit.model_card import ModelCard
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from graph_runtime import Code
from servers.access import Access, ApiKeys
from servers.contract.data_plane import ModelDescription, PullProgress
from servers.page.settings import PageSettings
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import Reply, ask, connected, request_bytes, serving

LINES = "application/x-ndjson"
USER = {"role": "user", "content": "hi"}
CARD = ModelCard(
    architecture="llama",
    format="gguf",
    quantization="Q4_K_M",
    size=100,
    facts={"general.architecture": "llama", "llama.context_length": 9},
    capabilities=("completion", "tools"),
    template="{{ messages }}",
    defaults={"temperature": 0.5, "stop": ["a", "b"]},
)


def request(
    path: str,
    body: Any = None,
    method: str = "POST",
    content_type: str = "application/x-www-form-urlencoded",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """A request as curl sends it: with a type of its own choice."""
    data = b"" if body is None else json.dumps(body).encode()
    return request_bytes(method, path, data, {"Content-Type": content_type, **(headers or {})})


async def lines(payload: HttpPayload, emit: Emit) -> None:
    """Answer as a language model does, with the name that the graph sees."""
    if payload.parsed_json.get("stream", True):
        emit(f'{{"model":"{payload.parsed_json["model"]}","done":false}}\n')
        emit('{"done":true}\n')
    else:
        emit(json.dumps({"model": payload.parsed_json["model"], "done": True}))


async def cut(payload: HttpPayload, emit: Emit) -> None:
    emit('{"response":"a","done":false}\n')
    raise RequestError("the engine is gone", code=Code.UNAVAILABLE)


async def failed(payload: HttpPayload, emit: Emit) -> None:
    raise RequestError("options.seed: no", param="options.seed")


def plane() -> FakeDataPlane:
    made = FakeDataPlane(
        **{"m": lines, "org/m:7b": lines, "tagged:latest": lines, "cut": cut, "failed": failed}
    )
    made.described = [
        ModelDescription("m", 1_700_000_000, "", "text_generation", {"max_model_len": 7}, CARD),
        ModelDescription("org/m:7b", 1_700_000_000, "", "text_generation", is_loaded=False),
        ModelDescription("tagged:latest", 1_700_000_000, "", "embeddings", idle_seconds=60.0),
    ]
    return made


def asked(run: Run, *requests: bytes, plane: FakeDataPlane, **settings: Any) -> list[Reply]:
    replies: list[Reply] = []

    async def scenario() -> None:
        async with serving(plane, **settings) as front:
            replies.extend([await ask(front, each) for each in requests])

    run(scenario())
    return replies


def chat(run: Run, model: str, **members: Any) -> Reply:
    body = {"model": model, "messages": [USER], **members}
    return asked(run, request("/api/chat", body), plane=plane())[0]


@pytest.mark.parametrize(
    ("name", "served"),
    [
        *(("m", "m"), ("m:latest", "m"), ("org/m:7b", "org/m:7b")),
        *(("tagged", "tagged:latest"), ("tagged:latest", "tagged:latest")),
    ],
)
def test_a_model_is_found_with_its_tag_and_without(run: Run, name: str, served: str) -> None:
    assert chat(run, name, stream=False).json == {"model": served, "done": True}


@pytest.mark.parametrize("name", ["org/m", "m:7b", "M", "", "x" * 5000])
def test_another_name_is_none(run: Run, name: str) -> None:
    reply = chat(run, name)
    assert reply.status == (404 if name else 400)
    assert set(reply.json) == {"error"}
    assert isinstance(reply.json["error"], str)


def test_answers_are_lines_unless_asked_for_whole(run: Run) -> None:
    reply = chat(run, "m")
    assert reply.headers["content-type"] == LINES
    assert [json.loads(line) for line in reply.body.splitlines()] == [
        {"model": "m", "done": False},
        {"done": True},
    ]
    assert chat(run, "m", stream=False).headers["content-type"] == "application/json"


def test_an_error_within_lines_is_the_last_line(run: Run) -> None:
    reply = chat(run, "cut")
    assert reply.status == 200
    assert [json.loads(line) for line in reply.body.splitlines()] == [
        {"response": "a", "done": False},
        {"error": "the engine is gone"},
    ]


def test_an_error_before_the_first_line_has_its_status(run: Run) -> None:
    reply = chat(run, "failed")
    assert (reply.status, reply.json) == (400, {"error": "options.seed: no"})


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/api/chat", {"messages": []}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/chat", {}, {"message": {"role": "assistant", "content": ""}}),
        ("/api/generate", {}, {"response": ""}),
        ("/api/generate", {"prompt": "", "stream": False}, {"response": ""}),
    ],
)
def test_a_request_that_says_nothing_loads_the_model(
    run: Run, path: str, body: dict[str, Any], answer: dict[str, Any]
) -> None:
    at = plane()
    reply = asked(run, request(path, {"model": "m", **body}), plane=at)[0]
    assert reply.json.pop("created_at")
    assert {**reply.json, "created_at": ""} == {
        "model": "m",
        "created_at": "",
        "done": True,
        "done_reason": "load",
        **answer,
    }
    assert at.payloads == []
    assert asked(run, request(path, {"model": "none", **body}), plane=at)[0].status == 404


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/api/chat", {"top_logprobs": 21}, "top_logprobs"),
        ("/api/chat", {"messages": [], "options": {"temperature": "x"}}, "options.temperature"),
        ("/api/chat", {"format": 3}, "format"),
        ("/api/chat", {"tools": [{"type": "function"}]}, "tools[0].name"),
        ("/api/chat", {"keep_alive": 0, "thnk": True}, "thnk"),
        ("/api/generate", {"think": "x"}, "think"),
        ("/api/generate", {"prompt": "", "stream": "x"}, "stream"),
        ("/api/embed", {"dimensions": "x"}, "dimensions"),
        ("/api/embed", {"input": [], "truncate": 1}, "truncate"),
        ("/api/embeddings", {"keep_alive": []}, "keep_alive"),
    ],
)
def test_a_request_that_says_nothing_is_checked_as_any_other(
    run: Run, path: str, body: dict[str, Any], place: str
) -> None:
    reply = asked(run, request(path, {"model": "m", **body}), plane=plane())[0]
    assert reply.status == 400
    assert place in reply.json["error"]


@pytest.mark.parametrize("path", ["/api/embed", "/api/embeddings"])
def test_no_text_has_no_vector(run: Run, path: str) -> None:
    reply = asked(run, request(path, {"model": "m", "input": [], "prompt": ""}), plane=plane())[0]
    assert (reply.json["embeddings"], reply.json["embedding"]) == ([], [])


def test_a_model_that_loads_on_demand_may_be_let_go(run: Run) -> None:
    at = plane()
    body = {"model": "tagged", "keep_alive": 0}
    gone, answered, kept = asked(
        run,
        request("/api/chat", body),
        request("/api/chat", {**body, "messages": [USER], "stream": False}),
        request("/api/chat", {**body, "messages": [USER], "keep_alive": "5m", "stream": False}),
        plane=at,
    )
    assert gone.json["done_reason"] == "unload"
    assert answered.status == kept.status == 200
    assert "warning" not in answered.headers
    assert at.released == ["tagged:latest"] * 2


@pytest.mark.parametrize(("model", "allows"), [("m", True), ("tagged", False)])
def test_a_model_is_not_let_go_for_others(run: Run, model: str, allows: bool) -> None:
    at = plane()
    body = {"model": model, "keep_alive": "0s"}
    refused, warned = asked(
        run,
        request("/api/generate", body),
        request("/api/generate", {**body, "prompt": "hi", "stream": False}),
        plane=at,
        access=Access(allows_control=allows),
    )
    assert refused.status == 403
    assert "keep_alive" in refused.json["error"]
    assert warned.status == 200
    assert "keep_alive" in warned.headers["warning"]
    assert at.released == []


def test_a_bad_keep_alive_is_refused(run: Run) -> None:
    assert chat(run, "m", keep_alive="soon").status == 400


def test_the_models_are_listed(run: Run) -> None:
    tags, running, version = asked(
        run,
        *(request(f"/api/{each}", method="GET") for each in ("tags", "ps", "version")),
        plane=plane(),
    )
    listed = {each["name"]: each for each in tags.json["models"]}
    assert list(listed) == ["m", "org/m:7b", "tagged:latest"]
    assert all(each["model"] == name and each["digest"] for name, each in listed.items())
    assert listed["m"]["modified_at"] == "2023-11-14T22:13:20Z"
    assert listed["m"]["details"] == {
        "parent_model": "",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "",
        "quantization_level": "Q4_K_M",
    }
    assert [each["capabilities"] for each in listed.values()] == [
        *(["completion", "tools"], ["completion"], ["embedding"])
    ]
    assert {each["name"]: each.get("context_length") for each in running.json["models"]} == {
        "m": 7,
        "tagged:latest": None,
    }
    assert running.json["models"][0]["expires_at"].startswith("9999")
    assert running.json["models"][1]["expires_at"] < "9999"
    assert version.json["version"]


@pytest.mark.parametrize("member", ["model", "name"])
def test_a_model_is_shown(run: Run, member: str) -> None:
    shown, unloaded, missing, unnamed = asked(
        run,
        request("/api/show", {member: "m:latest"}),
        request("/api/show", {member: "org/m:7b"}),
        request("/api/show", {member: "none"}),
        request("/api/show", {}),
        plane=plane(),
    )
    assert shown.json["model_info"] == {"general.architecture": "llama", "llama.context_length": 7}
    assert shown.json["capabilities"] == ["completion", "tools"]
    assert shown.json["template"] == "{{ messages }}"
    assert shown.json["parameters"] == 'temperature 0.5\nstop "a"\nstop "b"'
    assert (unloaded.status, unloaded.json["model_info"]) == (200, {})
    assert (missing.status, unnamed.status) == (404, 400)
    assert "'none' not found" in missing.json["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("POST", f"/api/{action}") for action in ("copy", "create", "push", "pull")),
        *(("DELETE", "/api/delete"), ("POST", "/api/blobs/sha256:abc")),
    ],
)
def test_what_is_not_done_is_refused_with_a_reason(run: Run, method: str, path: str) -> None:
    reply = asked(run, request(path, {"model": "m"}, method), plane=plane())[0]
    assert reply.status == 403
    assert len(reply.json["error"].split()) > 4


class Changes:
    """Downloads without a hub: the name says how they end."""

    def __init__(self) -> None:
        self.changed: list[str] = []

    async def pull(self, name: str) -> AsyncGenerator[PullProgress, None]:
        if name == "busy":
            raise RequestError("another model is being downloaded", code=Code.UNAVAILABLE)
        yield PullProgress("pulling manifest")
        if name == "missing":
            raise RequestError("there is no such model", code=Code.FAILED_PRECONDITION)
        yield PullProgress(f"pulling {name}", 5, 10)
        self.changed.append(f"pulled {name}")

    async def remove(self, name: str) -> None:
        self.changed.append(f"removed {name}")

    async def forget(self, name: str) -> None:
        self.changed.append(f"forgot {name}")


def test_models_are_pulled_and_deleted_where_the_operator_allows_it(run: Run) -> None:
    changes = Changes()
    pulled, whole, missing, busy, nameless, gone, unknown = asked(
        run,
        request("/api/pull", {"model": "a/b"}),
        request("/api/pull", {"name": "a/c", "stream": False}),
        request("/api/pull", {"model": "missing"}),
        request("/api/pull", {"model": "busy"}),
        request("/api/pull", {}),
        request("/api/delete", {"model": "m:latest"}, "DELETE"),
        request("/api/delete", {"model": "none"}, "DELETE"),
        plane=plane(),
        model_changes=changes,
    )
    assert pulled.headers["content-type"] == LINES
    assert [json.loads(line) for line in pulled.body.splitlines()] == [
        {"status": "pulling manifest"},
        {"status": "pulling a/b", "total": 10, "completed": 5},
        {"status": "success"},
    ]
    assert whole.json == {"status": "success"}
    assert json.loads(missing.body.splitlines()[-1]) == {"error": "there is no such model"}
    assert (busy.status, nameless.status) == (503, 400)
    assert (gone.status, unknown.status) == (200, 404)
    assert changes.changed == ["pulled a/b", "pulled a/c", "removed m", "forgot m"]


@pytest.mark.parametrize(
    ("settings", "headers"),
    [
        ({"access": Access(allows_control=False)}, {}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
        ({}, {"Origin": "https://evil.example"}),
    ],
)
def test_a_client_that_may_not_pulls_nothing(
    run: Run, settings: dict[str, Any], headers: dict[str, str]
) -> None:
    changes = Changes()
    replies = asked(
        run,
        request("/api/pull", {"model": "a/b"}, headers=headers, content_type="application/json"),
        request("/api/delete", {"model": "m"}, "DELETE", headers=headers),
        plane=plane(),
        model_changes=changes,
        **settings,
    )
    assert [reply.status for reply in replies] == [403, 403]
    assert all(isinstance(reply.json["error"], str) for reply in replies)
    assert changes.changed == []


def test_other_paths_of_ollama_are_errors_in_its_form(run: Run) -> None:
    unknown, wrong = asked(run, request("/api/me", {}), request("/api/tags", {}), plane=plane())
    assert (unknown.status, wrong.status) == (404, 405)
    assert isinstance(unknown.json["error"], str)
    assert isinstance(wrong.json["error"], str)


def test_a_page_of_another_site_cannot_send_what_needs_no_question(run: Run) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    body = {"model": "m", "messages": [USER], "stream": False}
    for path in ("/api/chat", "/api/show"):
        reply = asked(run, request(path, body, headers=headers), plane=plane())[0]
        assert reply.status == 403
    json_body = request("/api/chat", body, content_type="application/json", headers=headers)
    assert asked(run, json_body, plane=plane())[0].status == 200


def test_keys_are_needed_here_too(run: Run) -> None:
    access = Access(keys=ApiKeys.of_text("secret", "test"))
    shut, opened = asked(
        run,
        request("/api/tags", method="GET"),
        request("/api/tags", method="GET", headers={"Authorization": "Bearer secret"}),
        plane=plane(),
        access=access,
    )
    assert (shut.status, opened.status) == (401, 200)
    assert isinstance(shut.json["error"], str)


@pytest.mark.parametrize("has_page", [True, False])
def test_the_root_says_that_one_may_post_to_it(run: Run, has_page: bool) -> None:
    page = PageSettings(page=has_page)
    for method, status in ("PUT", 405), ("OPTIONS", 204):
        reply = asked(run, request("/", method=method), plane=plane(), page=page)[0]
        assert (reply.status, reply.headers["allow"]) == (status, "GET, HEAD, POST, OPTIONS")


def test_ollama_is_running_where_no_page_is(run: Run) -> None:
    got = request("/", method="GET")
    without = asked(run, got, plane=plane(), page=PageSettings(page=False))[0]
    assert (without.status, without.body) == (200, b"Ollama is running")


def test_the_port_of_ollama_is_another_one_of_the_same_server(run: Run) -> None:
    async def scenario() -> None:
        async with serving(plane(), ollama=True, ollama_port=0) as front:
            assert front.addresses[1][0] == "127.0.0.1"
            async with connected(front, place=1) as client:
                running = await client.ask(request("/", method="GET"))
                assert running.body == b"Ollama is running"
                client.send(request("/", method="HEAD"))
                assert (await client.reply(has_body=False)).status == 200
                page = await client.ask(
                    request("/", method="GET", headers={"Accept": "text/html,*/*"})
                )
                assert page.headers["content-type"].startswith("text/html")
                body = {"model": "m", "messages": [USER], "stream": False}
                assert (await client.ask(request("/api/chat", body))).status == 200
            assert (await ask(front, request("/", method="GET"))).body != b"Ollama is running"

    run(scenario())
