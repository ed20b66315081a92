"""The client of `graphrt bench` against a server that answers what a test wants."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from servers.load.client import BenchmarkClient, BenchmarkPrompt, RequestOutcome, run_load

HELLO = BenchmarkPrompt(({"role": "user", "content": "Hello"},), 5)


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def text_event(text: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": text}}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
DONE = b"data: [DONE]\n\n"


def outcomes_of(
    pieces: list[bytes], *, status: int = 200, count: int = 1, concurrency: int | None = None
) -> tuple[list[RequestOutcome], list[dict[str, Any]], int]:
    """Outcomes, the requests that came, and the most of them at once."""
    bodies: list[dict[str, Any]] = []
    active = most = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal active, most
        active += 1
        most = max(most, active)
        bodies.append(await request.json())
        response = web.StreamResponse(status=status)
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        active -= 1
        return response

    async def measure() -> list[RequestOutcome]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        try:
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{port}/v1/chat/completions"
                client = BenchmarkClient(session, url, "demo", {"ignore_eos": True})
                outcomes, _ = await run_load(client, [HELLO] * count, concurrency=concurrency)
                return outcomes
        finally:
            await runner.cleanup()

    return asyncio.run(measure()), bodies, most


def test_a_request_asks_for_a_stream_with_usage() -> None:
    (outcome,), (body,), _ = outcomes_of([text_event("a"), USAGE, DONE])
    assert body == {
        "model": "demo",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    assert outcome.is_good
    assert (outcome.text, outcome.input_tokens, outcome.output_tokens) == ("a", 7, 3)


def test_events_may_come_in_any_pieces() -> None:
    whole = text_event("one ") + text_event("two") + USAGE + DONE
    pieces = [whole[start : start + 7] for start in range(0, len(whole), 7)]
    (outcome,), _, _ = outcomes_of(pieces)
    assert outcome.text == "one two"
    assert not outcome.error


def test_arrivals_are_counted_where_the_server_does_not_count_tokens() -> None:
    (outcome,), _, _ = outcomes_of([text_event("a"), DONE])
    assert outcome.output_tokens == len(outcome.arrivals) == 1


@pytest.mark.parametrize(
    ("pieces", "status", "error"),
    [
        ([b'{"error": {"message": "too many"}}'], 429, "429: too many"),
        ([b"no"], 500, "500: no"),
        ([text_event("a")], 200, "the stream broke off"),
        ([text_event("a"), event({"error": {"message": "engine"}}), DONE], 200, "engine"),
        ([b"data: {\n\n"], 200, "not JSON"),
    ],
)
def test_a_failure_is_an_outcome(pieces: list[bytes], status: int, error: str) -> None:
    (outcome,), _, _ = outcomes_of(pieces, status=status)
    assert not outcome.is_good
    assert error in outcome.error


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    outcomes, bodies, most = outcomes_of([text_event("a"), DONE], count=20, concurrency=3)
    assert len(outcomes) == len(bodies) == 20
    assert most <= 3
