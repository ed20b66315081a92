"""``--unknown_fields warn``: the header of an answer, and the lines of the log."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.members import BOOLEAN, STRING, honoured, read_members, table
from calculators.kit.requests.unknown_members import UnknownMembers
from servers.operations.request_log import RequestJournal
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, request_bytes, serving

KNOWN = table(
    honoured("model", STRING), honoured("stream", BOOLEAN), honoured("temperature", STRING)
)
#: A member of a header: the code, the agent and a quoted text.
_WARNING = re.compile(r'299 graphrt "((?:[^"\\]|\\.)*)"')


async def reading(payload: HttpPayload, emit: Emit) -> None:
    """Answer after reading the members."""
    read = read_members(payload.parsed_json, KNOWN)
    if read.get("temperature") == "hot":
        raise RequestError("too hot", param="temperature")
    emit(f"data: {{}}\n\n{END}" if read.get("stream") else "{}")


def asking(members: dict[str, Any]) -> bytes:
    body = json.dumps({"model": "reading", **members}).encode()
    kind = {"Content-Type": "application/json"}
    return request_bytes("POST", "/v3/chat/completions", body, kind)


def told(value: str) -> list[str]:
    """Return the texts of the header."""
    found = _WARNING.findall(value)
    assert _WARNING.sub("", value) == ", " * (len(found) - 1)
    return [re.sub(r"\\(.)", r"\1", each) for each in found]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_names_the_members_in_a_header(run: Run, stream: bool) -> None:
    async def scenario() -> None:
        journal = RequestJournal(unknown_members=UnknownMembers.WARN)
        async with serving(FakeDataPlane(reading=reading), journal=journal) as front:
            reply = await ask(front, chat_bytes("reading", stream=stream, top_a=1, größe=2))
            assert reply.status == 200
            assert told(reply.headers["warning"]) == [
                'Unknown member "top_a"',
                'Unknown member "gr\\xf6\\xdfe"',
            ]
            assert "warning" not in (await ask(front, chat_bytes("reading"))).headers

    run(scenario())


def test_an_error_names_them_too(run: Run) -> None:
    async def scenario() -> None:
        journal = RequestJournal(unknown_members=UnknownMembers.WARN)
        async with serving(FakeDataPlane(reading=reading), journal=journal) as front:
            reply = await ask(front, chat_bytes("reading", temperature="hot", other=1))
            assert (reply.status, reply.error["param"]) == (400, "temperature")
            assert told(reply.headers["warning"]) == ['Unknown member "other"']

    run(scenario())


def test_names_cannot_break_the_header(run: Run) -> None:
    async def scenario() -> None:
        journal = RequestJournal(unknown_members=UnknownMembers.WARN)
        async with serving(FakeDataPlane(reading=reading), journal=journal) as front:
            name = 'a"\r\nX-Evil: 1\\ \x00 \u2028' + "b" * 1000
            reply = await ask(front, asking({name: 1}))
            assert reply.status == 200
            assert "x-evil" not in reply.headers
            (text,) = told(reply.headers["warning"])
            assert text.startswith('Unknown member "a"  X-Evil: 1\\')
            assert len(text) < 200

    run(scenario())


def test_the_log_has_each_warning_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="graphrt.request")

    async def scenario() -> None:
        journal = RequestJournal(unknown_members=UnknownMembers.WARN)
        async with serving(FakeDataPlane(reading=reading), journal=journal) as front:
            for _ in range(3):
                await ask(front, chat_bytes("reading", top_a=1))
            for number in range(300):
                await ask(front, asking({f"other{number}": "a secret"}))

    caplog.clear()
    run(scenario())
    lines = [record.getMessage() for record in caplog.records]
    assert sum("top_a" in line for line in lines) == 1
    assert lines[0] == (
        "a request for model='reading': Unknown member \"top_a\"; the same is not logged again"
    )
    assert len(lines) == 256
    assert not any("secret" in line for line in lines)


@pytest.mark.parametrize(
    ("rule", "status"), [(UnknownMembers.REFUSE, 400), (UnknownMembers.IGNORE, 200)]
)
def test_other_rules_have_no_header(run: Run, rule: UnknownMembers, status: int) -> None:
    async def scenario() -> None:
        journal = RequestJournal(unknown_members=rule)
        async with serving(FakeDataPlane(reading=reading), journal=journal) as front:
            reply = await ask(front, chat_bytes("reading", tempurature=1))
            assert reply.status == status
            assert "warning" not in reply.headers
            if status == 400:
                error: Any = reply.error
                assert (error["param"], error["code"]) == ("tempurature", "unknown_parameter")

    run(scenario())
