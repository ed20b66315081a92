"""Kept responses at the front: what a graph gets, what is kept, what runs without its client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from servers.access import Access, ApiKeys
from servers.fronts.http import HttpFront
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import (
    Reply,
    ask,
    connected,
    request_bytes,
    serving,
)

RESPONSES = "/v1/responses"


def response(payload: HttpPayload, status: str = "completed") -> dict[str, Any]:
    given = payload.parsed_json["input"]
    count = 1 if isinstance(given, str) else len(given)
    said = {"type": "message", "role": "assistant", "content": f"{count} items"}
    return {
        "id": payload.continued.id,
        "object": "response",
        "status": status,
        **payload.continued.echo,
        "output": []
        if status == "in_progress"
        else [{"id": f"msg_{payload.continued.id}", **said}],
    }


def event(number: int, kind: str, **members: Any) -> str:
    shown = {"type": f"response.{kind}", "sequence_number": number, **members}
    return f"event: response.{kind}\ndata: {json.dumps(shown, separators=(',', ':'))}\n\n"


async def model(payload: HttpPayload, emit: Emit) -> None:
    """Answer with the number of items, in three events."""
    if not payload.parsed_json.get("stream"):
        emit(json.dumps(response(payload)))
        return
    emit(event(0, "created", response=response(payload, "in_progress")))
    emit(event(1, "output_text.delta", delta="x"))
    emit(event(2, "completed", response=response(payload)) + END)


class Slow:
    """A model whose events after the first wait until they may come."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def __call__(self, payload: HttpPayload, emit: Emit) -> None:
        emit(event(0, "created", response=response(payload, "in_progress")))
        await self.may_go_on.wait()
        emit(event(1, "output_text.delta", delta="x"))
        emit(event(2, "completed", response=response(payload)) + END)


async def refuse(payload: HttpPayload, emit: Emit) -> None:
    raise RequestError("the input is wrong", param="input")


async def break_off(payload: HttpPayload, emit: Emit) -> None:
    emit(event(0, "created", response=response(payload, "in_progress")))
    raise ValueError("/a/path: secret")


async def post(front: HttpFront, path: str = RESPONSES, key: str = "", **body: Any) -> Reply:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return await ask(front, request_bytes("POST", path, json.dumps(body).encode(), headers))


async def get(front: HttpFront, path: str, method: str = "GET", key: str = "") -> Reply:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return await ask(front, request_bytes(method, path, b"", headers))


def at_front(
    run: Run, scenario: Callable[[HttpFront, FakeDataPlane], Awaitable[None]], **settings: Any
) -> None:
    async def serve() -> None:
        plane = FakeDataPlane(model=model, slow=Slow(), refuse=refuse, break_off=break_off)
        async with serving(plane, **settings) as front:
            await scenario(front, plane)

    run(serve())


async def ended(front: HttpFront, path: str) -> dict[str, Any]:
    """Return a response in the background once it has ended."""
    while True:
        shown: dict[str, Any] = (await get(front, path)).json
        if shown["status"] not in ("queued", "in_progress"):
            return shown
        await asyncio.sleep(0.01)


def events_of(reply: Reply) -> list[Any]:
    assert reply.headers["content-type"] == "text/event-stream"
    datas = [line[6:] for line in reply.body.decode().splitlines() if line.startswith("data: ")]
    assert datas.pop() == "[DONE]"
    return [json.loads(data) for data in datas]


@pytest.mark.parametrize("stream", [False, True])
def test_a_graph_gets_all_items_of_a_conversation(run: Run, stream: bool) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        first = await post(front, model="model", input="Hello", stream=stream)
        made = events_of(first)[-1]["response"] if stream else first.json
        assert (made["store"], made["previous_response_id"]) == (True, None)
        second = await post(front, model="model", input="And?", previous_response_id=made["id"])
        assert second.json["previous_response_id"] == made["id"]
        payload = plane.payloads[-1]
        assert [item["type"] for item in payload.parsed_json["input"][:2]] == ["message"] * 2
        assert (payload.continued.earlier, json.loads(payload.body)) == (2, payload.parsed_json)
        assert "previous_response_id" not in payload.parsed_json
        path = f"{RESPONSES}/{second.json['id']}"
        assert (await get(front, path)).json == second.json
        listed = (await get(front, f"{path}/input_items?order=asc&limit=2")).json
        assert (len(listed["data"]), listed["has_more"]) == (2, True)
        rest = (await get(front, f"{path}/input_items?order=asc&after={listed['last_id']}")).json
        assert (len(rest["data"]), rest["has_more"]) == (1, False)
        assert (await get(front, path, "DELETE")).json["deleted"]
        assert (await get(front, path)).status == 404

    at_front(run, scenario)


def test_store_false_keeps_nothing_and_may_continue(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        first = (await post(front, model="model", input="Hello")).json
        for more in ({}, {"previous_response_id": first["id"]}):
            made = (await post(front, model="model", input="x", store=False, **more)).json
            found = plane.payloads[-1].continued.id
            assert (await get(front, f"{RESPONSES}/{found or made['id'] or 'none'}")).status == 404
        assert plane.payloads[-1].continued.echo["store"] is False

    at_front(run, scenario)


def test_a_server_that_keeps_nothing_says_so(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        await post(front, model="model", input="Hello")
        assert plane.payloads[-1].continued.id == ""
        for path in (f"{RESPONSES}/resp_1", "/v1/conversations/conv_1", "/v1/chat/completions"):
            reply = await get(front, path)
            assert (reply.status, "--max_stored_responses" in reply.error["message"]) == (404, True)

    at_front(run, scenario, max_stored_responses=0)


def test_keys_do_not_read_each_others_responses(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        made = (await post(front, key="one", model="model", input="Hello")).json["id"]
        path = f"{RESPONSES}/{made}"
        assert (await get(front, path, key="one")).status == 200
        for method, where in (
            ("GET", path),
            ("DELETE", path),
            ("POST", f"{path}/cancel"),
            ("GET", f"{path}/input_items"),
        ):
            assert (await get(front, where, method, key="two")).status == 404
        reply = await post(front, key="two", model="model", input="x", previous_response_id=made)
        assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")
        assert (await get(front, path)).status == 401

    access = Access(keys=ApiKeys.of_text("one\ntwo", "a test"))
    at_front(run, scenario, access=access)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"previous_response_id": 5}, "previous_response_id"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"conversation": {"id": 7}}, "conversation.id"),
        ({"conversation": {}}, "conversation.id"),
        ({"conversation": "conv_none"}, "conversation"),
        ({"store": "no"}, "store"),
        ({"background": 1}, "background"),
        ({"conversation": "conv_1", "previous_response_id": "resp_1"}, "conversation"),
        ({"background": True, "store": False}, "store"),
        ({"input": [{"type": "item_reference", "id": "rs_1"}]}, "input[0]"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
    ],
)
def test_what_cannot_be_continued_is_refused(run: Run, members: dict[str, Any], param: str) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        reply = await post(front, **{"model": "model", "input": "Hello", **members})
        assert (reply.status in (400, 404), reply.error["param"]) == (True, param)
        assert not plane.payloads

    at_front(run, scenario)


def test_a_response_in_the_background_is_polled(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        begun = (await post(front, model="slow", input="Hello", background=True)).json
        assert (begun["status"], begun["background"]) == ("in_progress", True)
        path = f"{RESPONSES}/{begun['id']}"
        reply = await post(front, model="model", input="x", previous_response_id=begun["id"])
        assert "not complete" in reply.error["message"]
        plane.behaviours["slow"].may_go_on.set()  # type: ignore[attr-defined]
        shown = await ended(front, path)
        assert (shown["status"], len(shown["output"])) == ("completed", 1)
        assert (await get(front, f"{path}/cancel", "POST")).json == shown

    at_front(run, scenario)


def test_events_in_the_background_go_on_without_their_client(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        body = {"model": "slow", "input": "Hello", "background": True, "stream": True}
        data = request_bytes(
            "POST", RESPONSES, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        async with connected(front) as client:
            client.send(data)
            await client.head()
            first = (await client.chunk()).decode()
            client.abort()
        made = json.loads(first.splitlines()[1][6:])["response"]["id"]
        path = f"{RESPONSES}/{made}"
        following = asyncio.create_task(get(front, f"{path}?stream=true&starting_after=0"))
        plane.behaviours["slow"].may_go_on.set()  # type: ignore[attr-defined]
        assert [each["sequence_number"] for each in events_of(await following)] == [1, 2]
        whole = events_of(await get(front, f"{path}?stream=true"))
        assert [each["type"] for each in whole] == [
            "response.created",
            "response.output_text.delta",
            "response.completed",
        ]
        none = events_of(await get(front, f"{path}?stream=true&starting_after=2"))
        assert none == []
        bad = await get(front, f"{path}?stream=true&starting_after=-1")
        assert (bad.status, bad.error["param"]) == (400, "starting_after")

    at_front(run, scenario)


def test_a_response_is_cancelled_or_deleted_while_it_runs(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        for method, end, status in (("POST", "/cancel", "cancelled"), ("DELETE", "", "")):
            plane.ended.clear()
            made = (await post(front, model="slow", input="Hello", background=True)).json["id"]
            reply = await get(front, f"{RESPONSES}/{made}{end}", method)
            assert reply.json.get("status", "") == status
            await plane.ended.wait()
            assert plane.cancelled
            shown = await get(front, f"{RESPONSES}/{made}")
            assert shown.status == (200 if status else 404)

    at_front(run, scenario)


def test_a_request_that_the_graph_refuses_is_refused_in_the_background_too(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        reply = await post(front, model="refuse", input="Hello", background=True)
        assert (reply.status, reply.error["param"]) == (400, "input")
        made = plane.payloads[-1].continued.id
        assert (await get(front, f"{RESPONSES}/{made}")).status == 404
        reply = await post(front, model="none", input="Hello", background=True)
        assert (reply.status, reply.error["code"]) == (404, "model_not_found")

    at_front(run, scenario)


def test_a_response_that_breaks_off_has_failed_without_internals(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        reply = await post(front, model="break_off", input="Hello", background=True)
        made = reply.json["id"]
        shown = await ended(front, f"{RESPONSES}/{made}")
        assert shown["status"] == "failed"
        assert "secret" not in json.dumps(shown)
        events = events_of(await get(front, f"{RESPONSES}/{made}?stream=true"))
        assert [each["type"] for each in events] == ["response.created", "response.failed"]

    at_front(run, scenario)


def test_responses_without_background_keep_no_events(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        made = (await post(front, model="model", input="Hello")).json["id"]
        reply = await get(front, f"{RESPONSES}/{made}?stream=true")
        assert (reply.status, reply.error["param"]) == (400, "stream")
        assert (await get(front, f"{RESPONSES}/{made}?stream=perhaps")).status == 400
        assert (await get(front, f"{RESPONSES}/{made}/cancel", "POST")).status == 400

    at_front(run, scenario)


def test_what_runs_in_the_background_ends_with_the_server(run: Run, tmp_path: Path) -> None:
    async def first(front: HttpFront, plane: FakeDataPlane) -> None:
        made = await post(front, model="slow", input="Hello", background=True)
        (tmp_path / "id").write_text(made.json["id"])
        assert await front.drain(0.05) == 0

    async def second(front: HttpFront, plane: FakeDataPlane) -> None:
        shown = (await get(front, f"{RESPONSES}/{(tmp_path / 'id').read_text()}")).json
        assert (shown["status"], shown["error"]["code"]) == ("failed", "server_error")

    at_front(run, first, response_store=str(tmp_path / "kept"))
    at_front(run, second, response_store=str(tmp_path / "kept"))


def test_processes_that_share_a_store_answer_for_each_other(run: Run, tmp_path: Path) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        async with serving(plane, response_store=str(tmp_path), shares_port=True) as other:
            made = events_of(await post(front, model="model", input="Hello", stream=True))
            found = made[-1]["response"]["id"]
            assert (await get(other, f"{RESPONSES}/{found}")).status == 200
            begun = (await post(front, model="slow", input="Hello", background=True)).json["id"]
            path = f"{RESPONSES}/{begun}"
            following = asyncio.create_task(get(other, f"{path}?stream=true"))
            plane.behaviours["slow"].may_go_on.set()  # type: ignore[attr-defined]
            assert len(events_of(await following)) == 3
            plane.behaviours["slow"].may_go_on.clear()  # type: ignore[attr-defined]
            begun = (await post(front, model="slow", input="Hello", background=True)).json["id"]
            plane.ended.clear()
            reply = await get(other, f"{RESPONSES}/{begun}/cancel", "POST")
            assert reply.json["status"] == "cancelled"
            await plane.ended.wait()

    at_front(run, scenario, response_store=str(tmp_path), shares_port=True)


def test_conversations_are_made_read_and_used(run: Run) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        made = (await post(front, "/v1/conversations", metadata={"a": "b"})).json
        assert (made["object"], made["metadata"]) == ("conversation", {"a": "b"})
        path = f"/v1/conversations/{made['id']}"
        added = await post(front, f"{path}/items", items=[{"role": "user", "content": "Hello"}])
        [item] = added.json["data"]
        odd = [{"role": "user", "content": "Hello", "id": "a/%"}]
        await post(front, f"{path}/items", items=odd)
        for method, status in (("GET", 200), ("DELETE", 200), ("GET", 404)):
            assert (await get(front, f"{path}/items/a%2F%25", method)).status == status
        assert item["content"] == [{"type": "input_text", "text": "Hello"}]
        for conversation in (made["id"], {"id": made["id"]}):
            reply = await post(front, model="model", input="And?", conversation=conversation)
            assert reply.json["conversation"] == {"id": made["id"]}
        assert len(plane.payloads[-1].parsed_json["input"]) == 4
        listed = (await get(front, f"{path}/items?order=asc")).json
        assert len(listed["data"]) == 5
        assert (await get(front, f"{path}/items/{item['id']}")).json == item
        assert (await get(front, f"{path}/items/{item['id']}", "DELETE")).json == made
        assert (await get(front, f"{path}/items/{item['id']}")).status == 404
        changed = await post(front, path, metadata={"c": "d"})
        assert (await get(front, path)).json == changed.json
        assert (await get(front, path, "DELETE")).json["object"] == "conversation.deleted"
        reply = await post(front, model="model", input="x", conversation=made["id"])
        assert reply.status == 404
        assert (await get(front, "/v1/conversations", "POST")).status == 200

    at_front(run, scenario)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": "x"}, "items"),
        ({"items": [5]}, "items[0]"),
        ({"items": [{"role": "user"}] * 21}, "items"),
        ({"items": [{"role": "user", "id": "a b"}]}, "items[0].id"),
        ({"metadata": {"a": 5}}, "metadata"),
        ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ],
)
def test_a_conversation_that_is_wrong_is_refused(
    run: Run, body: dict[str, Any], param: str
) -> None:
    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        reply = await post(front, "/v1/conversations", **body)
        assert (reply.status, reply.error["param"]) == (400, param)

    at_front(run, scenario)


def test_chats_are_stored_where_they_ask_for_it(run: Run) -> None:
    async def chat(payload: HttpPayload, emit: Emit) -> None:
        head = {"id": f"chatcmpl-{len(plane_of.payloads)}", "created": 1, "model": "chat"}
        choice = {"index": 0, "finish_reason": "stop"}
        if payload.parsed_json.get("stream"):
            said = {**choice, "delta": {"role": "assistant", "content": "Hi"}}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [said]}
            emit(f"data: {json.dumps(chunk)}\n\n")
            emit(END)
            return
        said = {**choice, "message": {"role": "assistant", "content": "Hi"}}
        emit(json.dumps({**head, "object": "chat.completion", "choices": [said]}))

    plane_of = FakeDataPlane()

    async def scenario(front: HttpFront, plane: FakeDataPlane) -> None:
        nonlocal plane_of
        plane_of = plane
        plane.behaviours["chat"] = chat
        chats = "/v1/chat/completions"
        asked: dict[str, Any] = {
            "model": "chat",
            "messages": [{"role": "user", "content": "Hello"}],
        }
        await post(front, chats, **asked)
        await post(front, chats, **asked, store=True, metadata={"a": "1"})
        await post(front, chats, **asked, store=True, stream=True)
        listed = (await get(front, chats)).json
        ids = [each["id"] for each in listed["data"]]
        assert ids == ["chatcmpl-2", "chatcmpl-3"]
        contents = {each["choices"][0]["message"]["content"] for each in listed["data"]}
        assert contents == {"Hi"}
        found = (await get(front, f"{chats}?metadata%5Ba%5D=1&model=chat&order=desc")).json
        assert [each["id"] for each in found["data"]] == ["chatcmpl-2"]
        path = f"{chats}/chatcmpl-2"
        [message] = (await get(front, f"{path}/messages")).json["data"]
        assert (message["role"], message["content"]) == ("user", "Hello")
        assert (await post(front, path, metadata={})).json["metadata"] == {}
        assert (await get(front, path, "DELETE")).json["object"] == "chat.completion.deleted"
        for reply in (await get(front, path), await get(front, f"{path}/messages")):
            assert (reply.status, reply.error["param"]) == (404, None)

    at_front(run, scenario)
