"""The effect of each option of the key-value cache, with the real engine."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.llm.engine.settings import CacheEviction, SparseAttention
from tests.calculators.llm.engine.cache_runs import BLOCK, Run, open_engine, request, run
from tests.calculators.llm.engine.pipeline_apart import PipelineApart

#: Bytes of a block of the demo model: 4 layers, keys and values, 2 heads of 32 numbers.
_NUMBERS = 4 * 2 * 2 * 32 * BLOCK
#: In OpenVINO's u8, each 32 numbers have a scale and a zero point.
_U8 = _NUMBERS + _NUMBERS // 32 * 8
KEPT = 256
EVICTION: dict[str, Any] = {"start_size": 32, "recent_size": 64, "max_cache_size": KEPT}
#: A precision whose blocks have the same size on every processor.
PLAIN = {"KV_CACHE_PRECISION": "u8"}


def opened(**settings: Any) -> PipelineApart:
    settings["plugin_config"] = PLAIN | settings.get("plugin_config", {})
    return open_engine(**settings)


def evicting(**more: Any) -> PipelineApart:
    return opened(cache_eviction=CacheEviction(**(EVICTION | more)))


def ids(done: Run) -> list[list[int]]:
    return list(done.ids.values())


def answers(pipeline: PipelineApart, prompt: int, answer: int) -> list[float]:
    """Return log-probabilities of an answer: they differ sooner than its tokens do."""
    return run(pipeline, [request(1, prompt, answer, logprobs=True)]).logprobs[1]


@pytest.fixture(scope="module")
def dense() -> PipelineApart:
    return opened()


LONG = request(1, 1200, 20)


@pytest.fixture(scope="module")
def dense_answer(dense: PipelineApart) -> list[list[int]]:
    return ids(run(dense, [LONG]))


# Prefix caching -----------------------------------------------------------------------------------


def test_a_known_prefix_is_not_computed_again(dense_answer: list[list[int]]) -> None:
    pipeline = opened(enable_prefix_caching=True, max_num_batched_tokens=64)
    first, again = run(pipeline, [LONG]), run(pipeline, [LONG])
    longer = run(pipeline, [request(2, 1300, 1)])
    other = run(pipeline, [request(3, 1200, 1, first=7)])
    assert ids(first) == ids(again) == dense_answer
    assert first.first == {1: 19}
    assert again.first == {1: 1}
    assert longer.first == {2: 2}
    assert other.first == {3: 19}


def test_without_prefix_caching_every_prompt_is_computed() -> None:
    pipeline = opened(max_num_batched_tokens=64)
    assert [run(pipeline, [LONG]).first for _ in range(2)] == [{1: 19}, {1: 19}]


@pytest.mark.parametrize(("blocks", "first"), [(0, 10), (60, 1)], ids=["growing", "fixed"])
def test_a_prefix_stays_as_long_as_there_is_room(blocks: int, first: int) -> None:
    pipeline = opened(blocks=blocks, enable_prefix_caching=True, max_num_batched_tokens=64)
    for start in (0, 1000):
        run(pipeline, [request(1, 600, 1, first=start)])
    assert run(pipeline, [request(1, 600, 1)]).first == {1: first}


def test_an_interval_of_snapshots_is_for_models_with_a_state(dense_answer: list[list[int]]) -> None:
    pipeline = opened(enable_prefix_caching=True, cache_interval_multiplier=3)
    assert ids(run(pipeline, [LONG])) == dense_answer
    assert run(pipeline, [LONG]).first == {1: 1}


# Size ---------------------------------------------------------------------------------------------


def test_a_cache_has_the_configured_size(dense: PipelineApart) -> None:
    assert dense.metrics().cache_bytes < 10**7
    fixed = opened(cache_size=1)
    run(fixed, [request(1, 10, 2)])
    assert 2**30 - _U8 < fixed.metrics().cache_bytes <= 2**30


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"KV_CACHE_PRECISION": "u8"}, _U8),
        ({"KV_CACHE_PRECISION": "f16"}, 2 * _NUMBERS),
        ({"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": "f32"}, 4 * _NUMBERS),
        ({"KEY_CACHE_PRECISION": "u8", "VALUE_CACHE_PRECISION": "u8"}, _U8),
    ],
    ids=["u8", "f16", "f32", "keys and values"],
)
def test_the_precision_determines_the_bytes(config: dict[str, str], size: int) -> None:
    pipeline = open_engine(blocks=40, plugin_config=config)
    run(pipeline, [request(1, 10, 2)])
    assert pipeline.metrics().cache_bytes == 40 * size


# Scheduling ---------------------------------------------------------------------------------------


def test_prompts_are_computed_in_parts_or_whole(dense_answer: list[list[int]]) -> None:
    whole = opened(dynamic_split_fuse=False, max_num_batched_tokens=2048)
    done = run(whole, [LONG])
    assert (done.first, ids(done)) == ({1: 1}, dense_answer)


def test_the_number_of_running_sequences_is_bounded() -> None:
    pipeline = opened(dynamic_split_fuse=False, max_num_batched_tokens=512, max_num_seqs=1)
    done = run(pipeline, [request(each, 50, 5) for each in range(3)])
    assert list(done.first.values()) == [1, 6, 11]


# Eviction -----------------------------------------------------------------------------------------


def test_eviction_bounds_the_cache_of_a_long_answer(
    dense: PipelineApart, evictor: PipelineApart
) -> None:
    asked = [request(1, 100, 500)]
    without, with_it = run(dense, asked), run(evictor, asked)
    assert without.peak == pytest.approx(19 * _U8, rel=0.01)
    assert with_it.peak <= (KEPT + 2 * BLOCK) / BLOCK * _U8
    assert with_it.ends == {1: "length"}
    # Until something is dropped the answers are the same.
    same = KEPT - 100
    assert ids(with_it)[0][:same] == ids(without)[0][:same]


@pytest.mark.parametrize("length", [1, 8, 31, 32, 33, 36, 39, 40, 257, 288, 291])
def test_prompts_of_any_length_leave_the_engine_running(
    length: int, evictor: PipelineApart
) -> None:
    done = run(evictor, [request(1, length, 40)])
    assert done.ends == {1: "length"}


@pytest.fixture(scope="module")
def evictor() -> PipelineApart:
    return evicting()


@pytest.mark.parametrize(
    "more",
    [
        {"aggregation_mode": "SUM", "snapkv_window_size": 0},
        {"aggregation_mode": "SUM"},
        {"kv_crush_budget": 3, "kv_crush_anchor_point_mode": "MEAN"},
    ],
    ids=["sum", "window", "KVCrush"],
)
def test_the_kept_blocks_depend_on_the_aggregation(
    more: dict[str, Any], evictor: PipelineApart
) -> None:
    assert answers(evicting(**more), 600, 30) != answers(evictor, 600, 30)


def test_kvcrush_retains_the_configured_blocks(evictor: PipelineApart) -> None:
    asked = [request(1, 400, 70)]
    crushed = run(evicting(kv_crush_budget=4), asked)
    assert crushed.last == pytest.approx(run(evictor, asked).last + 4 * _U8, rel=0.01)


def test_kvcrush_chooses_by_its_seed() -> None:
    def chosen(seed: int) -> list[float]:
        return answers(evicting(kv_crush_budget=4, kv_crush_rng_seed=seed), 600, 10)

    first = chosen(1)
    assert first == chosen(1)
    # Another seed may happen to choose the same blocks.
    assert chosen(2) != first or chosen(3) != first


# Sparse attention ---------------------------------------------------------------------------------


def test_a_triangle_of_a_long_prompt_is_left_out(dense: PipelineApart) -> None:
    sparse = SparseAttention(
        num_last_dense_tokens_in_prefill=64,
        num_retained_start_tokens_in_cache=32,
        num_retained_recent_tokens_in_cache=64,
    )
    pipeline = opened(sparse_attention=sparse)
    assert answers(pipeline, 1200, 5) != answers(dense, 1200, 5)
    # Generated tokens, and prompts shorter than one part, are dense.
    assert answers(pipeline, 200, 50) == answers(dense, 200, 50)


def test_default_sparse_attention_leaves_nothing_out_of_the_longest_prompt(
    dense: PipelineApart,
) -> None:
    pipeline = opened(sparse_attention=SparseAttention())
    assert answers(pipeline, 1200, 5) == answers(dense, 1200, 5)


def test_sparse_attention_and_eviction_work_together() -> None:
    pipeline = opened(
        cache_eviction=CacheEviction(**EVICTION),
        sparse_attention=SparseAttention(
            num_last_dense_tokens_in_prefill=0,
            num_retained_start_tokens_in_cache=32,
            num_retained_recent_tokens_in_cache=64,
        ),
    )
    done = run(pipeline, [request(each, 350 * each, 60) for each in (1, 2)])
    assert set(done.ends.values()) == {"length"}
