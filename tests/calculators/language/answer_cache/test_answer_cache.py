"""AnswerCacheCalculator, with scripted models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from calculators.kit.requests.request_record import RequestRecord
from calculators.language import (
    Api,
    Begun,
    Deltas,
    Ended,
    FinishReason,
    GenerationRequest,
    ImageReference,
    Refused,
    ToolCall,
    Usage,
    call,
    fake_model,
    request_for,
    text_of,
)
from calculators.language.answer_cache.answer_cache import AnswerCache
from calculators.language.testing import events_of, items_of
from tests.calculators.language.nodes import in_order
from tests.calculators.language.scripted_graphs import model_node, run_requests

CACHED = """
    node {
      name: "cache" calculator: "AnswerCacheCalculator" input_stream: "REQUEST:request"
      input_stream: "DELTAS:made" output_stream: "REQUEST:missed" output_stream: "DELTAS:answer"
      input_side_packet: "ANSWER_CACHE:cache"
    }
""" + model_node("llm_node", "made", "missed")
GREEDY = {"temperature": 0}


def cache_of(max_bytes: int = 1 << 20, seconds: float = 0, *, samples: bool = False) -> AnswerCache:
    return AnswerCache(max_bytes, seconds, keeps_samples=samples)


async def ask(cache: AnswerCache, model: Any, request: GenerationRequest) -> list[Deltas]:
    sides = {"cache": {"cache": cache}}
    packets = await run_requests(CACHED, {"llm_node": model}, request, sides=sides)
    return in_order(packets)


def asked(text: str = "Hello", **fields: Any) -> GenerationRequest:
    return request_for(text, **{"sampling": GREEDY, **fields})


def times_asked(first: GenerationRequest, second: GenerationRequest, **options: Any) -> int:
    """Return how many of two requests reached the model."""
    model, cache = fake_model("answer"), cache_of(**options)
    for request in (first, second):
        assert text_of(asyncio.run(ask(cache, model, request))) == "answer"
    return len(model.requests)


def test_the_same_question_gets_the_same_answer_in_one_packet_with_its_usage() -> None:
    model, cache, record = fake_model("Hel", "lo"), cache_of(), RequestRecord("r")
    first = asyncio.run(ask(cache, model, asked(id="one")))
    [second] = asyncio.run(ask(cache, model, asked(id="two", stream=True, record=record)))
    assert text_of(first) == text_of(second) == "Hello"
    assert items_of(first)[-1] == second[-1] == Ended(Usage(1, 2))
    assert isinstance(second[0], Begun)
    assert second[0].request.id == "two"
    assert len(model.requests) == 1
    assert [route[:2] for route in record.routes] == [("cache", "kept")]


@pytest.mark.parametrize(
    "other",
    [
        asked("Hello!"),
        asked(sampling={"temperature": 0, "max_tokens": 3}),
        asked(model="other"),
        asked().answered_by("route"),
        asked(n=2),
        asked(api=Api.COMPLETIONS),
        asked(images=(ImageReference("data:image/png;base64,AA", "messages"),)),
    ],
)
def test_other_questions_are_asked(other: GenerationRequest) -> None:
    model, cache = fake_model("answer"), cache_of()
    for request in (asked(), other, asked(), other):
        asyncio.run(ask(cache, model, request))
    assert len(model.requests) == 2


def test_answers_drawn_at_random_are_kept_with_a_seed_or_on_demand() -> None:
    warm = asked(sampling={"temperature": 0.7})
    seeded = asked(sampling={"temperature": 0.7, "seed": 1})
    assert times_asked(warm, warm) == 2
    assert times_asked(warm, warm, samples=True) == 1
    assert times_asked(seeded, seeded) == 1


def test_what_a_kept_answer_does_not_have_is_asked_for_again() -> None:
    for fields in (
        {"wants_logprobs": True},
        {"returns_token_ids": True},
        {"images": (ImageReference("https://example.com/a.png", "messages"),)},
    ):
        assert times_asked(asked(**fields), asked(**fields)) == 2


def test_failures_and_refusals_are_not_kept() -> None:
    for model in (
        fake_model("half", fails_after=1),
        fake_model(Refused("no"), finish=FinishReason.CONTENT_FILTER),
    ):
        cache = cache_of()
        asyncio.run(ask(cache, model, asked()))
        asyncio.run(ask(cache, model, asked()))
        assert len(model.requests) == 2


def test_calls_get_new_ids() -> None:
    model, cache = fake_model(call("f", {"a": 1}, "call00001")), cache_of()
    ids = []
    for _ in range(3):
        [event] = [
            event
            for event in events_of(asyncio.run(ask(cache, model, asked())))
            if isinstance(event, ToolCall)
        ]
        ids.append(event.call_id)
    assert ids[0] == "call00001"
    assert len({*ids}) == 3
    assert {len(each) for each in ids} == {9}


def test_equal_requests_at_one_time_ask_once() -> None:
    async def race() -> tuple[Any, list[str]]:
        model, cache = fake_model("one", " answer", delay=0.01), cache_of()
        answers = await asyncio.gather(*(ask(cache, model, asked(id=str(n))) for n in range(8)))
        return model, [text_of(each) for each in answers]

    model, texts = asyncio.run(race())
    assert texts == ["one answer"] * 8
    assert len(model.requests) == 1


def test_when_the_first_of_equal_requests_fails_the_next_one_asks() -> None:
    async def race() -> tuple[int, list[str]]:
        model, cache = fake_model("half", "whole", fails_after=1, delay=0.001), cache_of()
        answers = await asyncio.gather(*(ask(cache, model, asked()) for _ in range(3)))
        return len(model.requests), [text_of(each) for each in answers]

    assert asyncio.run(race()) == (3, ["half"] * 3)


def test_bytes_are_bounded_and_the_answer_that_was_not_used_for_longest_goes() -> None:
    model, cache = fake_model("x" * 1000), cache_of(12_000)
    for text in ("a", "b", "a", "c"):
        asyncio.run(ask(cache, model, asked(text)))
    assert len(cache) == 2
    assert 0 < cache.bytes <= 12_000
    asyncio.run(ask(cache, model, asked("a")))
    assert len(model.requests) == 3
    asyncio.run(ask(cache, model, asked("b")))
    assert len(model.requests) == 4
    asyncio.run(ask(cache, fake_model("x" * 100_000), asked("too large")))
    assert cache.bytes <= 12_000
    asyncio.run(cache.close())
    assert (len(cache), cache.bytes) == (0, 0)


def test_old_answers_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("calculators.language.answer_cache.answer_cache.monotonic", lambda: now)
    model, cache = fake_model("answer"), cache_of(seconds=60)
    asyncio.run(ask(cache, model, asked()))
    now = 159.0
    asyncio.run(ask(cache, model, asked()))
    assert len(model.requests) == 1
    now = 161.0
    asyncio.run(ask(cache, model, asked()))
    assert len(model.requests) == 2


def test_a_text_that_is_no_unicode_is_asked_about() -> None:
    assert times_asked(asked("\ud800"), asked("\ud800")) == 2
