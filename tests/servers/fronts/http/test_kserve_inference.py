"""Inferences over HTTP: JSON and binary data in, JSON and binary data out."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import ClientConnection, RequestError
from calculators.tensors.inference import CustomTensor, InferRequest
from graph_runtime import Code, RunError, UnavailableError
from graph_runtime.errors import GraphError, TimestampError
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.fake_models import Answer
from tests.servers.fronts.http.http_client import ask, connected, request_bytes, serving
from tests.servers.fronts.http.kserve_requests import (
    binary_body,
    binary_infer,
    floats_of,
    numbers,
    post,
    tail_of,
)
from tests.support.patience import PATIENCE

INFER = "/v2/models/echo/infer"


def test_json_is_answered_in_json(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        body = {"id": "seven", "inputs": [numbers(1, 2.5)], "parameters": {"p": 1}}
        async with serving(plane) as front:
            reply = await ask(front, post(INFER, body, {"X-Request-Id": "mine"}))
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["x-request-id"] == "mine"
        assert reply.json == {
            "model_name": "echo",
            "model_version": "1",
            "id": "seven",
            "parameters": {"p": 1},
            "outputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1.0, 2.5]}],
        }

    run(scenario())


def test_binary_data_is_answered_in_binary(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, binary_infer(np.array([[1, 2.5]], "<f4"), "FP32"))
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/octet-stream"
        assert floats_of(reply) == [1.0, 2.5]
        head = json.loads(reply.body[: -len(tail_of(reply))])
        assert head["outputs"] == [
            {
                "name": "x",
                "shape": [1, 2],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 8},
            }
        ]

    run(scenario())


@pytest.mark.parametrize(
    ("path", "model", "version"),
    [
        (INFER, "echo", ""),
        (INFER + "?a=b", "echo", ""),
        ("/v2/models/echo/versions/2/infer", "echo", "2"),
        ("/v2/models/org/model:7b/infer", "org/model:7b", ""),
        ("/v2/models/org%2Fmodel%3A7b/versions/1/infer", "org/model:7b", "1"),
        ("/v2/models/a%2Fversions%2F2/infer", "a/versions/2", ""),
        ("/v2/models/infer/infer", "infer", ""),
        ("/v2/models/versions/versions/1/infer", "versions", "1"),
        ("/v2/models/%C3%A9%20x/infer", "é x", ""),
    ],
)
def test_the_path_names_model_and_version(run: Run, path: str, model: str, version: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences[model] = plane.inferences["echo"]
        async with serving(plane) as front:
            assert (await ask(front, post(path, {"inputs": []}))).status == 200
        assert [(each.model, each.version) for each in plane.requests] == [(model, version)]

    run(scenario())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/v2/models/other/infer", 'no model "other" is served'),
        ("/v2/models/other/versions/1/infer", 'no model "other" is served'),
        ("/v2/models/echo/versions/7/infer", 'the model "echo" has no version 7'),
        ("/v2/models/echo/versions/latest/infer", 'no version "latest": versions are whole'),
        ("/v2/models/echo/versions/-1/infer", 'no version "-1": versions are whole numbers'),
        (f"/v2/models/echo/versions/{9 * '9999'}/infer", "versions are whole numbers"),
        ("/v2/models/echo/versions/%D9%A1/infer", "versions are whole numbers"),
        (f"/v2/models/{'m' * 2000}/infer", "no such model"),
    ],
)
def test_unknown_models_and_versions_are_not_found(run: Run, path: str, text: str) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            reply = await ask(front, post(path, {"inputs": []}))
        assert reply.status == 404
        assert text in reply.json["error"]
        assert plane.requests == []

    run(scenario())


@pytest.mark.parametrize("whole", [True, False])
def test_ten_megabytes_arrive_unchanged(run: Run, whole: bool) -> None:
    """By default; they are in one piece and aligned, whatever the length of the JSON."""
    seen: list[bool] = []

    async def look(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        (tensor,) = request.inputs
        assert not isinstance(tensor, CustomTensor)
        seen.append(tensor.data.flags.owndata or tensor.data.flags.writeable)
        await plane.inferences["echo_"](request, client, emit)

    plane = FakeDataPlane()
    plane.inferences = {"echo_": plane.inferences["echo"], "echo": look}

    async def scenario() -> None:
        array = np.arange(2_500_000, dtype="<f4")
        data = binary_infer(array, "FP32")
        if not whole:
            head, _, body = data.partition(b"\r\n\r\n")
            head = b"\r\n".join(
                b"Transfer-Encoding: chunked" if line.startswith(b"Content-Length") else line
                for line in head.split(b"\r\n")
            )
            data = head + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        async with serving(plane) as front:
            for _ in range(2):
                reply = await ask(front, data)
                assert reply.status == 200
                assert tail_of(reply) == array.tobytes()
        assert not any(seen) or not whole

    run(scenario())


def test_a_tensor_that_is_too_large_is_refused_before_it_is_sent(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), max_body_bytes=100, max_tensor_body_bytes=1000) as front,
            connected(front) as client,
        ):
            headers = {"Content-Length": "1001"}
            client.send(request_bytes("POST", INFER, b"", headers))
            reply = await client.reply()
        assert reply.status == 413
        assert reply.json["error"] == "the body is larger than 1000 bytes"

    run(scenario())


def test_the_limits_of_json_apply(run: Run) -> None:
    async def scenario() -> None:
        limits = {"max_body_bytes": 300, "max_tensor_json_elements": 40}
        async with serving(FakeDataPlane(), **limits) as front:
            large = await ask(front, post(INFER, {"id": "i" * 300, "inputs": []}))
            many = await ask(front, post(INFER, {"inputs": [numbers(*range(50))]}))
            binary = await ask(front, binary_infer(np.zeros(1000, "<f4"), "FP32"))
            deep = await ask(front, post(INFER, {"inputs": json.loads("[" * 30 + "]" * 30)}))
        assert (large.status, many.status, binary.status, deep.status) == (413, 400, 200, 400)
        assert large.json["error"] == (
            "the JSON is larger than 300 bytes; send tensors as binary data"
        )
        assert many.json["error"] == (
            "the body has more than 40 JSON values; send tensors as binary data"
        )

    run(scenario())


@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=utf-8", ""])
@pytest.mark.parametrize("origin", [None, "http://localhost"])
def test_any_content_type_is_accepted_except_from_web_pages(
    run: Run, content_type: str, origin: str | None
) -> None:
    """A page can send some types to any server without a preflight request."""

    async def scenario() -> None:
        headers = {"Content-Type": content_type} if content_type else {}
        if origin is not None:
            headers["Origin"] = origin
        body = json.dumps({"inputs": [numbers(1)]}).encode()
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes("POST", INFER, body, headers))
        is_refused = origin is not None and content_type != "application/json"
        assert reply.status == (415 if is_refused else 200)
        assert ("error" in reply.json) is is_refused

    run(scenario())


def _raw_deflate(data: bytes) -> bytes:
    encoder = zlib.compressobj(wbits=-15)
    return encoder.compress(data) + encoder.flush()


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress)],
)
def test_bodies_may_be_compressed(run: Run, encoding: str, encode: Any) -> None:
    """The length in the header is that of the uncompressed JSON."""

    async def scenario() -> None:
        tensor = np.arange(300_000, dtype="<f4")
        value = {
            "parameters": {"binary_data_output": True},
            "inputs": [{"name": "x", "datatype": "FP32", "shape": tensor.shape}],
        }
        body, headers = binary_body(value, tensor.tobytes())
        headers["Content-Encoding"] = encoding
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes("POST", INFER, encode(body), headers))
        assert reply.status == 200
        assert tail_of(reply) == tensor.tobytes()

    run(scenario())


BODY = json.dumps({"inputs": [numbers(1)]}).encode()
# Without the time of day, which would be in the test's name.
ZIPPED = gzip.compress(BODY, mtime=0)


@pytest.mark.parametrize(
    ("encoding", "body", "status", "text"),
    [
        ("br", BODY, 415, "the only Content-Encodings of a body here are gzip and deflate"),
        ("gzip, gzip", BODY, 415, "the only Content-Encodings"),
        ("gzip", BODY, 400, "the body is not encoded as its Content-Encoding says"),
        ("gzip", b"", 400, "the body is not encoded as its Content-Encoding says"),
        ("gzip", ZIPPED[:-1], 400, "not encoded as its Content-Encoding says"),
        ("gzip", ZIPPED + b"x", 400, "not encoded as its Content-Encoding says"),
        ("gzip", zlib.compress(BODY), 400, "not encoded as its Content-Encoding says"),
        ("deflate", _raw_deflate(BODY), 400, "not encoded as its Content-Encoding says"),
        ("gzip", gzip.compress(bytes(2**21 + 1)), 413, "content is larger than 2097152 bytes"),
        (
            "deflate",
            lambda: zlib.compress(bytes(2**26)),
            413,
            "content is larger than 2097152 bytes",
        ),
    ],
)
def test_invalid_or_huge_compressed_bodies_are_refused(
    run: Run, encoding: str, body: bytes | Callable[[], bytes], status: int, text: str
) -> None:
    sent = body() if callable(body) else body

    async def scenario() -> None:
        headers = {"Content-Encoding": encoding}
        limits = {"max_body_bytes": 2**21, "max_tensor_body_bytes": 2**21}
        async with serving(FakeDataPlane(), **limits) as front:
            reply = await ask(front, request_bytes("POST", INFER, sent, headers))
        assert reply.status == status
        assert text in reply.json["error"]

    run(scenario())


def test_custom_datatypes_are_accepted_in_binary(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            reply = await ask(front, binary_infer(np.array([1, 2, 3], "u1"), "my_type"))
        assert tail_of(reply) == b"\1\2\3"
        (tensor,) = plane.requests[0].inputs
        assert isinstance(tensor, CustomTensor)
        assert (tensor.datatype, tensor.shape) == ("my_type", (3,))

    run(scenario())


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (RequestError('the input "x" is too long'), 400, 'the input "x" is too long'),
        (UnavailableError('the model "echo" is loading'), 503, 'the model "echo" is loading'),
        (RequestError("full", code=Code.RESOURCE_EXHAUSTED), 429, "full"),
        (GraphError("device lost", code=Code.INTERNAL), 500, "internal error (request r)"),
        (TimestampError("7 after 8"), 500, "internal error (request r)"),
        (ZeroDivisionError("/srv/model.py:7"), 500, "internal error (request r)"),
        (RunError([RequestError("no such label")]), 400, "no such label"),
    ],
)
def test_errors_of_an_inference_have_statuses(
    run: Run, error: Exception, status: int, text: str
) -> None:
    async def fail(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        raise error

    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["echo"] = fail
        async with serving(plane) as front:
            reply = await ask(front, post(INFER, {"inputs": []}, {"X-Request-Id": "r"}))
        assert (reply.status, reply.json) == (status, {"error": text})

    run(scenario())


def test_an_output_that_json_cannot_represent_must_be_requested_in_binary(run: Run) -> None:
    async def scenario() -> None:
        value = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}
        body, headers = binary_body(value, np.array([np.nan], "<f4").tobytes())
        async with serving(FakeDataPlane()) as front:
            reply = await ask(front, request_bytes("POST", INFER, body, headers))
        assert reply.status == 400
        assert reply.json["error"] == (
            'the output "x" cannot be expressed in JSON: an element is infinite or not a number;'
            " infer it with the parameter binary_data"
        )

    run(scenario())


def test_a_connection_serves_many_inferences(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            for number in range(3):
                reply = await client.ask(post(INFER, {"inputs": [numbers(number)]}))
                assert reply.json["outputs"][0]["data"] == [number]
                large = await client.ask(binary_infer(np.full(50_000, number, "<f4"), "FP32"))
                assert floats_of(large) == [number] * 50_000

    run(scenario())


def test_the_same_json_may_come_with_other_data(run: Run) -> None:
    """The cache of parsed heads keeps nothing of their data or path."""

    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["other"] = plane.inferences["echo"]
        async with serving(plane) as front:
            for number in range(3):
                data = binary_infer(np.array([number], "<f4"), "FP32")
                assert floats_of(await ask(front, data)) == [number]
                other = data.replace(b"/echo/", b"/other/versions/2/")
                assert floats_of(await ask(front, other)) == [number]
        asked = [(each.model, each.version) for each in plane.requests]
        assert asked == [("echo", ""), ("other", "2")] * 3

    run(scenario())


def test_cached_json_is_checked_against_the_data_of_each_request(run: Run) -> None:
    async def scenario() -> None:
        value = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}]}
        async with serving(FakeDataPlane()) as front:
            for size, status in ((4, 200), (3, 400), (4, 200), (8, 400)):
                body, headers = binary_body(value, bytes(size))
                reply = await ask(front, request_bytes("POST", INFER, body, headers))
                assert reply.status == status

    run(scenario())


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_client_that_leaves_ends_the_run(run: Run, size: int) -> None:
    async def hang(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["echo"] = hang
        async with serving(plane) as front, connected(front) as client:
            client.send(binary_infer(np.zeros(size, "<f4"), "FP32"))
            await plane.begun.wait()
            client.abort()
            await plane.ended.wait()
            assert (plane.running, plane.cancelled) == (0, 1)

    run(scenario())


def test_draining_answers_requests_in_flight_and_cuts_off_late_ones(run: Run) -> None:
    async def hang(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        plane = FakeDataPlane()
        plane.inferences["late"] = hang
        async with serving(plane) as front, connected(front) as one, connected(front) as two:
            data = binary_infer(np.zeros(50_000, "<f4"), "FP32")
            one.send(data[:-4])
            two.send(post("/v2/models/late/infer", {"inputs": []}))
            await plane.begun.wait()
            await front.stop_accepting()
            one.send(data[-4:])
            reply = await one.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert await front.drain(0.05) == 1
            late = await two.reply()
            assert (late.status, late.json) == (503, {"error": "the server is shutting down"})

    run(scenario())


def test_an_answer_that_is_not_read_is_cut_off(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with (
            serving(plane, stall_seconds=0.2) as front,
            connected(front, receive_buffer=4096) as stalled,
            connected(front) as other,
        ):
            stalled.send(binary_infer(np.zeros(4_000_000, "<f4"), "FP32"))
            await plane.ended.wait()
            reply = await other.ask(binary_infer(np.array([7], "<f4"), "FP32"))
            assert floats_of(reply) == [7]
            assert await front.drain(PATIENCE) == 0  # every connection is closed

    run(scenario())


def test_the_log_has_a_line_for_each_refusal_but_not_for_each_inference(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            for inputs in ([numbers(1)], None):
                await ask(front, post(INFER, {"inputs": inputs}))

    run(scenario())
    (line,) = [each for each in caplog.messages if INFER in each]
    assert line.startswith(f"POST {INFER} 400 ")


def test_nothing_is_appended_to_an_answer_that_is_cut_off(run: Run) -> None:
    """The client reads nothing of two large tensors until it is too late."""

    async def scenario() -> None:
        raw = bytes(8_000_000)
        member = {"datatype": "UINT8", "shape": [len(raw)]}
        value = {
            "parameters": {"binary_data_output": True},
            "inputs": [{"name": "x", **member}, {"name": "y", **member}],
        }
        body, headers = binary_body(value, raw, raw)
        plane = FakeDataPlane()
        async with (
            serving(plane) as front,
            connected(front, receive_buffer=4096) as client,
        ):
            client.send(request_bytes("POST", INFER, body, headers))
            await plane.ended.wait()
            assert await front.drain(0.05) == 1
            status, fields = await client.head()
            rest = await client.wait_closed_by_server()
        assert status == 200
        assert len(rest) < int(fields["content-length"])
        assert b"error" not in rest

    run(scenario())


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        (INFER, "POST, OPTIONS"),
        ("/v2/models/echo/versions/1/generate", "POST, OPTIONS"),
        ("/v2/models/echo/generate_stream", "POST, OPTIONS"),
        ("/v2/models/echo", "GET, HEAD, OPTIONS"),
        ("/v2/models/echo/ready", "GET, HEAD, OPTIONS"),
        ("/v2/repository/index", "POST, OPTIONS"),
        ("/v2/repository/models/echo/load", "POST, OPTIONS"),
        ("/v2/repository/models/echo/unload", "POST, OPTIONS"),
    ],
)
def test_wrong_methods_are_refused_with_the_allowed_ones(run: Run, path: str, allow: str) -> None:
    async def scenario() -> None:
        wrong = "POST" if allow.startswith("GET") else "GET"
        async with serving(FakeDataPlane()) as front:
            refused = await ask(front, request_bytes(wrong, path))
            options = await ask(front, request_bytes("OPTIONS", path))
        assert (refused.status, refused.headers["allow"]) == (405, allow)
        assert isinstance(refused.json["error"], str)
        assert (options.status, options.headers["allow"]) == (204, allow)

    run(scenario())
