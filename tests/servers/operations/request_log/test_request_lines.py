"""The log line of each request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc.aio
import pytest

from calculators.kit.requests.fields import invalid, wrong_type
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import unknown
from calculators.kit.requests.request_record import KEPT, GenerationRecord, current_record
from graph_runtime import Code, UnavailableError
from servers.operations.request_log import MAX_CHARS, RequestEnd, RequestJournal
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane, raising
from tests.servers.fronts.http.http_client import ask, chat_bytes, request_bytes, serving
from tests.servers.fronts.http.kserve_requests import numbers, post
from tests.servers.fronts.kserve_grpc import fake_data_plane as grpc_plane
from tests.servers.fronts.kserve_grpc.grpc_client import infer_request
from tests.servers.fronts.kserve_grpc.grpc_client import serving as serving_grpc

OK = RequestEnd("http", "POST", "/v3/x", "/v3/{path}", 200, is_failure=False)


def requests_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "graphrt.request"]


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = record.__dict__["fields"]
    return fields


def only_line(caplog: pytest.LogCaptureFixture) -> logging.LogRecord:
    (record,) = requests_in(caplog)
    return record


def over_http(*requests: bytes, plane: FakeDataPlane | None = None) -> list[Any]:
    async def scenario() -> list[Any]:
        async with serving(plane or FakeDataPlane()) as front:
            return [await ask(front, data) for data in requests]

    return asyncio.run(scenario())


def test_the_line_of_a_chat_has_id_model_time_and_sizes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    data = chat_bytes("echo", headers={"X-Request-Id": "mine"})
    (reply,) = over_http(data)
    assert reply.headers["x-request-id"] == "mine"
    record = only_line(caplog)
    fields = fields_of(record)
    assert fields.pop("milliseconds") >= 0
    assert fields == {
        "request_id": "mine",
        "method": "POST",
        "path": "/v3/chat/completions",
        "model": "echo",
        "status": 200,
        "request_bytes": len(data.partition(b"\r\n\r\n")[2]),
        "response_bytes": len(reply.body),
    }
    shown = record.getMessage()
    assert shown.startswith("POST /v3/chat/completions 200 ")
    assert " ms model='echo' " in shown
    assert shown.endswith(" request_id=mine")


def test_the_line_of_a_broken_stream_has_the_error_after_its_status(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    plane = FakeDataPlane(broken=raising(UnavailableError("gone"), after=1))
    over_http(chat_bytes("broken", stream=True), plane=plane)
    fields = fields_of(only_line(caplog))
    assert (fields["status"], fields["error"]) == (200, "503")


def test_frequent_lookups_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    infer = post("/v2/models/echo/infer", {"inputs": [numbers(1.0)]})
    unknown = post("/v2/models/nobody/infer", {"inputs": [numbers(1.0)]})
    plane = FakeDataPlane()
    plane.is_ready = False
    ready = request_bytes("GET", "/v2/health/ready")
    over_http(ready, infer, unknown, request_bytes("GET", "/metrics"), plane=plane)
    told = [(record.levelname, fields_of(record)["path"]) for record in requests_in(caplog)]
    assert told == [
        ("DEBUG", "/v2/health/ready"),
        ("DEBUG", "/v2/models/echo/infer"),
        ("INFO", "/v2/models/nobody/infer"),
        ("DEBUG", "/metrics"),
    ]


def test_no_text_of_a_client_can_start_another_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    over_http(
        chat_bytes("x' request_id=forged\n2026 INFO a: b\x1b[2J\u202e"),
        request_bytes("POST", "/v3/x%0ay?key=secret", b"{}"),
        chat_bytes("echo", headers={"X-Request-Id": "two words"}),
    )
    first, second, third = (record.getMessage() for record in requests_in(caplog))
    assert 'model="x\' request_id=forged\\n2026 INFO a: b\\x1b[2J\\u202e"' in first
    assert all(text.isascii() and text.isprintable() for text in (first, second, third))
    assert "secret" not in second
    assert "two words" not in third


def over_grpc(*calls: tuple[str, bytes], metadata: Any = ()) -> list[Any]:
    """Return the trailing metadata of each call."""

    async def scenario() -> list[Any]:
        found = []
        async with serving_grpc(grpc_plane.FakeDataPlane()) as client:
            for method, request in calls:
                call = client.call_raw(method, request, metadata=metadata)
                try:
                    await call
                except grpc.aio.AioRpcError as error:
                    found.append(dict(error.trailing_metadata() or ()))
                else:
                    found.append(dict(await call.trailing_metadata()))
        return found

    return asyncio.run(scenario())


def test_calls_have_ids_in_their_metadata_both_ways(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    well = infer_request("echo").SerializeToString()
    wrong = infer_request("nobody").SerializeToString()
    answers = over_grpc(
        ("ModelInfer", well),
        ("ModelInfer", wrong),
        ("ServerReady", b""),
        metadata=(("x-request-id", "mine"),),
    )
    assert [answer["x-request-id"] for answer in answers] == ["mine"] * 3
    (made,) = over_grpc(("ServerReady", b""), metadata=(("x-request-id", "two words"),))
    assert len(made["x-request-id"]) == 32
    told = [
        (record.levelname, fields_of(record)["method"].rpartition("/")[2],
         fields_of(record).get("model"), fields_of(record)["status"])
        for record in requests_in(caplog)
    ]  # fmt: skip
    assert told == [
        ("DEBUG", "ModelInfer", "echo", "OK"),
        ("INFO", "ModelInfer", "nobody", "NOT_FOUND"),
        ("DEBUG", "ServerReady", None, "OK"),
        ("DEBUG", "ServerReady", None, "OK"),
    ]
    assert fields_of(requests_in(caplog)[0])["request_bytes"] == len(well)


def test_a_stream_of_calls_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    async def scenario() -> str:
        async with serving_grpc(grpc_plane.FakeDataPlane()) as client:
            call = client.stream()(metadata=(("x-request-id", "mine"),))
            for number in range(3):
                await call.write(infer_request("echo", id=str(number)))
                await call.read()
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            return str(dict(await call.trailing_metadata())["x-request-id"])

    assert asyncio.run(scenario()) == "mine"
    fields = fields_of(only_line(caplog))
    assert fields["method"] == "inference.GRPCInferenceService/ModelStreamInfer"
    assert (fields["model"], fields["status"]) == ("echo", "OK")


def test_tokens_of_all_generations_are_logged_and_texts_only_on_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    for keeps_texts in (False, True):
        journal = RequestJournal(keeps_texts=keeps_texts)
        record = journal.begin("mine", lambda name: None)
        assert current_record() is record
        for _ in range(2):
            generation = record.begin_generation("node", "completions")
            assert generation.keeps_texts is keeps_texts
            generation.prompt_tokens, generation.completion_tokens = 3, 4
            generation.shared_tokens = 2 * keeps_texts
            if generation.keeps_texts:
                generation.prompts = ["a\nb"]
                generation.answers = ["c" * (MAX_CHARS + 5)]
        journal.end(record, OK)
        assert current_record() is None
    lines = requests_in(caplog)
    assert [fields_of(line)["prompt_tokens"] for line in lines] == [6, 6]
    assert [fields_of(line)["completion_tokens"] for line in lines] == [8, 8]
    assert [fields_of(line).get("shared_tokens") for line in lines] == [None, 4]
    texts = [record for record in caplog.records if record.name == "graphrt.prompts"]
    assert [text.getMessage()[:40] for text in texts][::2] == [
        "prompt 0 of request_id=mine: a\\nb"
    ] * 2
    assert fields_of(texts[0])["prompt"] == "a\nb"
    assert texts[1].getMessage().endswith("c... (5 more characters)")


def test_a_long_stream_does_not_accumulate_records() -> None:
    forgotten: list[GenerationRecord] = []
    journal = RequestJournal()
    journal.forgets = lambda of, generation: forgotten.append(generation)
    record = journal.begin("mine", lambda name: None)
    for _ in range(KEPT + 10):
        record.begin_run("graph")
        generation = record.begin_generation("node", "completions")
        generation.prompt_tokens, generation.completion_tokens = 1, 2
    journal.end(record, OK)
    assert len(record.generations) == len(record.runs) == KEPT
    assert len(forgotten) == 10
    assert forgotten[-1] not in record.generations
    assert (record.prompt_tokens, record.completion_tokens) == (KEPT + 10, 2 * (KEPT + 10))


SECRET = "my secret prompt"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            invalid("temperature", "3 is above the maximum 2"),
            "temperature: 3 is above the maximum 2",
        ),
        (
            wrong_type("messages[0].content", "a string", 5),
            "messages[0].content: expected a string, got 5",
        ),
        (
            wrong_type("temperature", "a number", SECRET),
            'temperature: expected a number, got the string "..."',
        ),
        (
            wrong_type("top_k", "a number", '"\\" ' + SECRET),
            'top_k: expected a number, got the string "..."',
        ),
        (
            invalid("guided_regex", f"not a regular expression: {SECRET}"),
            "guided_regex: not a regular expression",
        ),
        (invalid("tool_choice", f"'{SECRET}' names no tool"), 'tool_choice: "..." names no tool'),
        (
            invalid("type", f'"a" {SECRET}" is none of "text", "image_url"'),
            'type: "..."',
        ),
        (unknown(SECRET, ()), "...: unknown member"),
        (unknown("tempurature", ("temperature",)), "tempurature: unknown member"),
        (unknown(SECRET, (), path="text"), "text....: unknown member"),
        # Templates and authors may write anything.
        (
            RequestError(f"the template says {SECRET}", param="messages"),
            "messages: INVALID_ARGUMENT",
        ),
        (RequestError(SECRET, code=Code.RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED"),
        (RequestError(SECRET, param="messages", reason="too_long"), "messages: too_long"),
    ],
)
def test_the_line_of_an_error_has_its_reason_and_no_text_of_the_client(
    caplog: pytest.LogCaptureFixture, error: RequestError, reason: str
) -> None:
    caplog.set_level("INFO")
    over_http(chat_bytes("fails"), plane=FakeDataPlane(fails=raising(error)))
    record = only_line(caplog)
    assert fields_of(record)["reason"] == reason
    assert "secret" not in caplog.text


def test_invalid_json_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    body = b'{"model": "echo", "user": "' + SECRET.encode() + b'" x}'
    over_http(
        request_bytes("POST", "/v3/chat/completions", body, {"Content-Type": "application/json"})
    )
    reason = fields_of(only_line(caplog))["reason"]
    assert "not valid JSON, line 1, byte 46" in reason
    assert "secret" not in caplog.text


def test_a_successful_request_has_no_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    over_http(chat_bytes("echo"))
    assert "reason" not in fields_of(only_line(caplog))
