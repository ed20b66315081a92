"""The last hour, for a page that opens now."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from servers.operations.request_log import RequestEnd
from servers.page.events import EngineNow
from servers.page.feed import EVERY, LastHour
from tests.servers.page.watching import Page, on_page

SECOND = 1_000_000_000


def generated(ended: int, tokens: int, first: float, per_token: float) -> RequestRecord:
    """Return the record of one generation; times in milliseconds."""
    record = RequestRecord("id")
    first_token = ended - round((tokens - 1) * per_token * 1e6)
    began = first_token - round(first * 1e6)
    made = GenerationRecord("llm", "chat/completions", began=began, first_token=first_token)
    made.ended, made.completion_tokens = ended, tokens
    made.finish_reasons.append("stop")
    record.generations.append(made)
    return record


def ended_with(status: int | str) -> RequestEnd:
    return RequestEnd("http", "POST", "/v3/chat/completions", "", status, is_failure=False)


def test_each_moment_has_the_requests_that_ended_in_it() -> None:
    engine = EngineNow("demo", "llm", 3, 2, 0.25, 1 << 20, 100, up=True, restarts=0)
    hour = LastHour(lambda: [engine])
    # In the middle of a moment, so that those before and after it are in others.
    present = perf_counter_ns() // (EVERY * SECOND) * EVERY * SECOND + EVERY * SECOND // 2
    long_ago, before = present - 3700 * SECOND, present - 60 * SECOND
    for ended in (long_ago, before, before + SECOND, before + 2 * SECOND):
        hour.end(generated(ended, 11, first=20, per_token=5), ended_with(200), ended)
    hour.end(RequestRecord("refused"), ended_with(400), before)
    hour.end(RequestRecord("grpc"), ended_with("OK"), before + EVERY * SECOND)
    hour.end(RequestRecord("now"), ended_with(200), perf_counter_ns() + SECOND * EVERY)
    told = hour.event()
    one, two = told.moments
    assert told.seconds == EVERY
    assert two.end_us - one.end_us == EVERY * 1_000_000
    assert (one.requests, one.errors, one.tokens, one.ttft_ms, one.tpot_ms) == (4, 1, 33, 20, 5)
    assert (one.running, one.waiting, one.cache) == (3, 2, 0.25)
    assert (two.requests, two.errors, two.tokens, two.ttft_ms) == (1, 0, 0, None)


def test_a_stream_begins_with_the_hour_and_has_it_once(tmp_path: Path) -> None:
    async def scenario(page: Page) -> None:
        async with page.watching("graphs=echo") as watched:
            await watched.until(lambda seen: "echo" in seen.graphs)
            assert [name for name, _ in watched.events[:2]] == ["hello", "hour"]
            await page.client.post("/v3/completions", json={"model": "echo"})
            await watched.until(lambda seen: seen.graphs["echo"]["ended"] == 1)
            assert len(watched.named("hour")) == 1

    on_page(tmp_path, scenario)
