"""A cache of a fixed size that is too small for its requests: none hangs, none ends another, and
the reason is reported."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.engine.admission import CacheCapacity, find_cache_capacity
from calculators.llm.engine.core import GenerationRefused
from calculators.llm.engine.settings import CacheEviction, EngineSettings
from tests.calculators.llm.engine.cache_runs import BLOCK, Run, open_engine, request, run
from tests.calculators.llm.engine.pipeline_apart import PipelineApart

BLOCKS = 20
TOKENS = BLOCKS * BLOCK


@pytest.fixture(scope="module")
def small() -> PipelineApart:
    return open_engine(blocks=BLOCKS)


def is_empty(pipeline: PipelineApart) -> bool:
    """Check that a request which needs all of the cache gets it."""
    done = run(pipeline, [request(99, TOKENS - 10, 5)])
    return done.ends == {99: "length"}


def test_the_engine_reports_the_size_of_its_cache(small: PipelineApart) -> None:
    assert small.ready().cache_tokens == TOKENS


def test_a_cache_that_grows_has_no_such_limit() -> None:
    pipeline = open_engine()
    assert pipeline.ready().cache_tokens == 0


def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers(small: PipelineApart) -> None:
    with pytest.raises(GenerationRefused, match=f"has {TOKENS + 1} tokens.* holds {TOKENS} "):
        small.add(request(1, TOKENS + 1, 1))
    assert not small.has_work
    assert is_empty(small)


def test_an_answer_ends_when_the_cache_is_full(small: PipelineApart) -> None:
    done = run(small, [request(1, 400, None), request(2, TOKENS, 50)])
    assert done.ends == {1: "cache", 2: "cache"}
    # The last token of an answer needs no room.
    assert [len(done.ids[each]) for each in (1, 2)] == [TOKENS - 400 + 1, 1]
    assert is_empty(small)


def test_an_answer_that_just_fits_ends_with_its_length(small: PipelineApart) -> None:
    done = run(small, [request(1, 400, TOKENS - 400 + 1)])
    assert done.ends == {1: "length"}
    assert len(done.ids[1]) == TOKENS - 400 + 1


def test_more_requests_than_fit_take_turns_and_get_their_full_answers(small: PipelineApart) -> None:
    asked = [request(each, 100, 200, first=each) for each in range(8)]
    done = run(small, asked)
    assert set(done.ends.values()) == {"length"}
    alone = run(small, asked[-1:])
    assert done.ids[7] == alone.ids[7]
    assert len(done.ids[7]) == 200
    assert is_empty(small)


def test_a_request_that_fills_the_cache_ends_no_other(small: PipelineApart) -> None:
    greedy = request(1, 50, None)
    others = [request(each, 50, 60, first=each) for each in (2, 3, 4)]
    done = run(small, [greedy, *others])
    assert done.ends == {1: "cache", 2: "length", 3: "length", 4: "length"}
    assert [len(done.ids[each]) for each in (2, 3, 4)] == [60, 60, 60]


def test_a_cancelled_request_frees_its_room(small: PipelineApart) -> None:
    small.add(request(1, 300, None))
    small.add(request(2, 300, None))
    for _ in range(5):
        small.step()
    small.cancel(1)
    small.cancel(2)
    assert not small.has_work
    assert is_empty(small)


#: Settings of engines that must not evict a sequence, and settings of their requests.
KEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "eviction": (
        {"cache_eviction": CacheEviction(start_size=32, recent_size=64, max_cache_size=256)},
        {},
    ),
    "look-up": (
        {"plugin_config": {"prompt_lookup": True}},
        {"num_assistant_tokens": 4, "max_ngram_size": 3},
    ),
}


@pytest.mark.parametrize("kind", KEPT)
def test_requests_wait_where_none_may_be_preempted(kind: str) -> None:
    settings, more = KEPT[kind]
    pipeline = open_engine(blocks=BLOCKS, **settings)
    asked = [request(each, 100, 200, first=each, **more) for each in range(8)]
    for each in asked:
        pipeline.add(each)
    pipeline.step()
    waiting = pipeline.metrics().waiting
    assert waiting > 0
    pipeline.cancel(7)
    assert pipeline.metrics().waiting == waiting - 1
    done = Run(ids={each: [] for each in range(8)})
    while pipeline.has_work:
        for gained in pipeline.step():
            done.ends[gained.request_id] = getattr(gained, "finish_reason", None) or ""
    assert done.ends == dict.fromkeys(range(7), "length")


def test_an_answer_outgrows_a_cache_with_eviction() -> None:
    eviction = CacheEviction(start_size=32, recent_size=64, max_cache_size=256)
    pipeline = open_engine(blocks=BLOCKS, cache_eviction=eviction)
    done = run(pipeline, [request(1, 400, TOKENS)])
    assert done.ends == {1: "length"}
    assert len(done.ids[1]) == TOKENS


# Arithmetic ---------------------------------------------------------------------------------------


def test_beams_share_the_prompts_full_blocks() -> None:
    room = CacheCapacity(tokens=320, block=32)
    assert [room.answer(prompt) for prompt in (1, 64, 320, 321)] == [320, 257, 1, 0]
    # Eight blocks for four beams, two each.
    assert room.answer(64, beams=4) == 65
    assert room.answer(70, beams=4) == 59


def test_reserved_room_is_whole_blocks() -> None:
    room = CacheCapacity(tokens=320, block=32, is_reserved=True)
    assert [room.need(30, answer) for answer in (2, 3, 10_000)] == [32, 64, 320]
    dropping = CacheCapacity(tokens=3200, block=32, kept=256, is_reserved=True)
    assert dropping.need(30, 2**62) == 256 + 64
    assert dropping.need(600, 2**62) == 672


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ((0.01, 0.02), (3200, 32)),
        ((0.01, 0.03), (1600, 16)),
        ((None, None), None),
        ((0.01, 0.01), None),
        ((0.01, 0.025), None),
    ],
)
def test_the_size_of_a_cache_is_measured_with_prompts(
    usages: tuple[float | None, float | None], expected: tuple[int, int] | None
) -> None:
    room = find_cache_capacity(
        EngineSettings(model_path=""), lambda tokens: usages[0] if tokens == 2 else usages[1]
    )
    assert (None if room is None else (room.tokens, room.block)) == expected
