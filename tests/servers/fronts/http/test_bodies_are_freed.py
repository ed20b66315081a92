"""A body is freed with its request, also without Python's collector of cycles."""

from __future__ import annotations

import asyncio
import gc
import gzip
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from servers.fronts.body_room import SMALL, BodyRoom
from servers.fronts.http import HttpFront
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.form_requests import form_request, part
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, request_bytes, serving
from tests.servers.fronts.http.kserve_requests import binary_body

pytestmark = pytest.mark.both_loops

LARGE = 4 * SMALL
CAPACITY = 4 * LARGE
_TENSOR, _TENSOR_HEADERS = binary_body(
    {"inputs": [{"name": "x", "datatype": "UINT8", "shape": [LARGE],
                 "parameters": {"binary_data_size": LARGE}}]}, bytes(LARGE))  # fmt: skip
_INFER = "/v2/models/none/infer"
_PACKED = gzip.compress(_TENSOR)


def chunked(head: bytes, body: bytes, size: int = SMALL) -> bytes:
    """Return a request whose head does not say how long it is."""
    first, _, rest = head.partition(b"Content-Length")
    lines = [first + b"Transfer-Encoding: chunked" + rest[rest.index(b"\r\n") :]]
    for at in range(0, len(body), size):
        piece = body[at : at + size]
        lines += [f"{len(piece):x}\r\n".encode(), piece, b"\r\n"]
    return b"".join([*lines, b"0\r\n\r\n"])


def _chunked(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    return chunked(head + b"\r\n\r\n", body)


#: Requests that are refused once they are read: for their model, their form or their bytes.
REQUESTS = {
    "a chat": chat_bytes("none", user="x" * LARGE),
    "a chat in chunks": _chunked(chat_bytes("none", user="x" * LARGE)),
    "no JSON": request_bytes(
        "POST", "/v3/chat/completions", b"x" * LARGE, {"Content-Type": "application/json"}
    ),
    "a form": form_request(part("model", "none"), part("file", b"x" * LARGE, file="a")),
    "a form without end": form_request(part("file", b"x" * LARGE, file="a"))[:-80] + b"x" * 80,
    "tensors": request_bytes("POST", _INFER, _TENSOR, _TENSOR_HEADERS),
    "tensors in chunks": _chunked(request_bytes("POST", _INFER, _TENSOR, _TENSOR_HEADERS)),
    "tensors without JSON": request_bytes(
        "POST", _INFER, b"x" * LARGE, {**_TENSOR_HEADERS, "Inference-Header-Content-Length": "9"}
    ),
    "compressed tensors": request_bytes(
        "POST", _INFER, _PACKED, {**_TENSOR_HEADERS, "Content-Encoding": "gzip"}
    ),
    "tensors after 100 Continue": request_bytes(
        "POST", _INFER, _TENSOR, {**_TENSOR_HEADERS, "Expect": "100-continue"}
    ),
}


@pytest.fixture
def garbage() -> Iterator[list[Any]]:
    """What only the collector would free; it is off."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.garbage.clear()
    yield gc.garbage
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.collect()


def sizes_in(garbage: list[Any]) -> list[int]:
    """Return the sizes of what is large among the garbage and what it refers to."""
    gc.collect()
    found = {id(each): each for thing in garbage for each in (thing, *gc.get_referents(thing))}
    sizes = [
        each.nbytes if isinstance(each, memoryview) else len(each)
        for each in found.values()
        if isinstance(each, (bytes, bytearray, memoryview, str))
    ]
    return [size for size in sizes if size > SMALL // 4]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_refused_body_is_freed(run: Run, garbage: list[Any], name: str) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), room=BodyRoom(CAPACITY)) as front,
            connected(front) as client,
        ):
            client.send(REQUESTS[name])
            status, _ = await client.head()
            if status == 100:
                status, _ = await client.head()
            assert status in (400, 404)

    run(scenario())
    assert sizes_in(garbage) == []


@pytest.mark.parametrize("begins", [False, True])
def test_a_body_whose_error_is_in_a_cycle_with_its_frames_is_freed(
    run: Run, garbage: list[Any], begins: bool
) -> None:
    """As of a future that a model's process refuses: it is held by the frame that awaits it."""

    async def refuses(payload: HttpPayload, emit: Emit) -> None:
        answer = asyncio.get_running_loop().create_future()
        answer.set_exception(RequestError("no"))
        if begins:
            emit("data: {}\n\n")
        await answer

    async def scenario() -> None:
        plane = FakeDataPlane(refuses=refuses)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("refuses", user="x" * LARGE, stream=begins))
            status, _ = await client.head()
            assert status == (200 if begins else 400)
            if begins:
                await plane.ended.wait()
            plane.payloads.clear()

    run(scenario())
    assert sizes_in(garbage) == []


_GET = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
_POST = b"POST /v3/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
#: What is not HTTP.
HEADS = {
    "a long header": _GET + b"a: " + b"x" * LARGE + b"\r\n\r\n",
    "a long target": b"GET /" + b"x" * LARGE + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "many headers": _GET + b"a: b\r\n" * (LARGE // 6) + b"\r\n",
    "no HTTP at all": b"\x16\x03\x01" + bytes(LARGE),
    "two lengths": _POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + b"x" * LARGE,
}


@pytest.mark.parametrize("name", HEADS)
def test_what_is_no_http_is_freed(run: Run, garbage: list[Any], name: str) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(HEADS[name])
            status, _ = await client.head()
            assert status == 400

    run(scenario())
    assert sizes_in(garbage) == []


@pytest.mark.parametrize("name", REQUESTS)
def test_a_body_that_its_client_abandons_is_freed(run: Run, garbage: list[Any], name: str) -> None:
    room = BodyRoom(CAPACITY)

    async def scenario() -> None:
        async with serving(FakeDataPlane(), room=room) as front:
            async with connected(front) as client:
                request = REQUESTS[name]
                client.send(request[: -len(request) // 3])
                while not room.used and name != "compressed tensors":
                    assert (await ask(front, chat_bytes())).status == 200
                client.abort()
            await until_empty(front, room)

    run(scenario())
    assert sizes_in(garbage) == []


async def until_empty(front: HttpFront, room: BodyRoom) -> None:
    """Wait until no body has room, with requests of a normal client meanwhile."""
    while room.used:
        assert (await ask(front, chat_bytes())).status == 200


def test_bodies_of_unknown_size_are_bounded_together(run: Run) -> None:
    room = BodyRoom(CAPACITY)
    most = 0

    async def scenario() -> None:
        nonlocal most
        async with serving(FakeDataPlane(), room=room) as front:
            asked = [
                asyncio.ensure_future(ask(front, _chunked(chat_bytes(user="x" * LARGE))))
                for _ in range(20)
            ]
            while not all(each.done() for each in asked):
                most = max(most, room.used)
                await asyncio.sleep(0)
            assert {each.result().status for each in asked} == {200}

    run(scenario())
    assert SMALL < most <= CAPACITY + 2 * LARGE  # one of them may exceed the room
    assert room.used == 0


def test_the_content_of_compressed_bodies_counts(run: Run) -> None:
    room = BodyRoom(CAPACITY)
    most = 0
    content = 32 * SMALL
    bomb = gzip.compress(bytes(content))
    assert len(bomb) < SMALL

    async def scenario() -> None:
        nonlocal most
        async with serving(FakeDataPlane(), room=room) as front:
            headers = {**_TENSOR_HEADERS, "Content-Encoding": "gzip"}
            data = request_bytes("POST", _INFER, bomb, headers)
            asked = [asyncio.ensure_future(ask(front, data)) for _ in range(8)]
            while not all(each.done() for each in asked):
                most = max(most, room.used)
                await asyncio.sleep(0)
            assert {each.result().status for each in asked} == {400}

    run(scenario())
    assert SMALL < most <= CAPACITY + content  # one of them may exceed the room
    assert room.used == 0
