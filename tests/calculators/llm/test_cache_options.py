"""Options of the key-value cache that would crash the engine are refused by name."""

from __future__ import annotations

import pytest

from calculators.llm.engine.library_config import scheduler_config
from calculators.llm.options.plugin_config import block_tokens
from tests.calculators.llm.test_node_options import read, refusal

EVICTION = "start_size: 32 recent_size: 64 max_cache_size: 256"


def evicting(more: str = "", sizes: str = EVICTION) -> str:
    return f"cache_eviction_config {{ {sizes} {more} }}"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            evicting(sizes="start_size: 30 recent_size: 64 max_cache_size: 256"),
            ["cache_eviction_config.start_size: 30", "blocks of 32", "give at least 32"],
        ),
        (
            evicting(sizes="start_size: 0 recent_size: 64 max_cache_size: 256"),
            ["cache_eviction_config.start_size: 0", "at least 32"],
        ),
        (
            evicting(sizes="start_size: 32 recent_size: 70 max_cache_size: 256"),
            ["cache_eviction_config.recent_size: 70", "give 64 or 96"],
        ),
        (
            evicting(sizes="start_size: 32 recent_size: 64 max_cache_size: 100"),
            ["cache_eviction_config.max_cache_size: 100", "give 96 or 128"],
        ),
        (
            evicting(sizes="start_size: 32 recent_size: 64 max_cache_size: 96"),
            ["cache_eviction_config.max_cache_size: 96", "together, 96", "at least 128"],
        ),
        (
            'device: "GPU" ' + evicting(sizes="start_size: 16 recent_size: 24 max_cache_size: 256"),
            ["cache_eviction_config.recent_size: 24", "blocks of 16", "give 16 or 32"],
        ),
        (evicting("apply_rotation: true"), ["cache_eviction_config.apply_rotation: true"]),
        (
            "enable_prefix_caching: true " + evicting(),
            ["enable_prefix_caching: true", "cache_eviction_config"],
        ),
        (
            "sparse_attention_config { num_retained_start_tokens_in_cache: 100 }",
            ["sparse_attention_config.num_retained_start_tokens_in_cache: 100", "96 or 128"],
        ),
        (
            "sparse_attention_config { num_retained_recent_tokens_in_cache: 8 }",
            ["sparse_attention_config.num_retained_recent_tokens_in_cache: 8", "0 or 32"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_threshold: 1.5 }',
            ["sparse_attention_config.xattention_threshold: 1.5", "0 to 1"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_threshold: nan }',
            ["sparse_attention_config.xattention_threshold: nan"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_block_size: 0 }',
            ["sparse_attention_config.xattention_block_size: 0", "at least 16"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_block_size: 33 }',
            ["sparse_attention_config.xattention_block_size: 33", "32 or 48"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_stride: 0 }',
            ["sparse_attention_config.xattention_stride: 0", "64"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_stride: 24 }',
            ["sparse_attention_config.xattention_stride: 24", "64"],
        ),
        (
            'device: "GPU" sparse_attention_config { mode: XATTENTION xattention_stride: 128 }',
            ["sparse_attention_config.xattention_stride: 128", "64"],
        ),
        (
            "sparse_attention_config { mode: XATTENTION }",
            ["sparse_attention_config.mode: XATTENTION is for GPUs", "TRISHAPE"],
        ),
        (
            'device: "CPU" sparse_attention_config { mode: XATTENTION }',
            ["sparse_attention_config.mode: XATTENTION is for GPUs", "TRISHAPE"],
        ),
        ("cache_size: 1000000", ["cache_size: 1000000 means 1000000 GB"]),
        (
            'models_path: "./" draft_models_path: "./" draft_cache_size: 1000000',
            ["draft_cache_size: 1000000 means 1000000 GB"],
        ),
        ("cache_size: 17179869184", ["cache_size: 17179869184 means"]),
        (
            "enable_prefix_caching: true cache_interval_multiplier: 0",
            ["cache_interval_multiplier: 0", "enable_prefix_caching"],
        ),
        ("cache_interval_multiplier: 9000000000", ["cache_interval_multiplier: 9000000000"]),
        (
            "dynamic_split_fuse: false max_num_batched_tokens: 128",
            ["max_num_seqs: 256", "max_num_batched_tokens, 128", "dynamic_split_fuse"],
        ),
    ],
)
def test_an_invalid_option_is_refused_with_what_would_be_right(
    options: str, words: list[str]
) -> None:
    text = refusal(options)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "options",
    [
        evicting(),
        'device: "GPU.1" ' + evicting(sizes="start_size: 16 recent_size: 48 max_cache_size: 80"),
        evicting("kv_crush_config { budget: 100 anchor_point_mode: MEAN }"),
        "sparse_attention_config {} " + evicting(),
        "sparse_attention_config { num_retained_start_tokens_in_cache: 0 }",
        'device: "GPU" '
        "sparse_attention_config { mode: XATTENTION xattention_threshold: 0 xattention_stride: 64}",
        # Options of the other mode are not checked.
        "sparse_attention_config { mode: TRISHAPE xattention_stride: 7 }",
        "cache_size: 1 enable_prefix_caching: true cache_interval_multiplier: 1",
        "dynamic_split_fuse: false max_num_batched_tokens: 128 max_num_seqs: 128",
    ],
)
def test_valid_options_give_no_warning(options: str) -> None:
    assert read(options).warnings == ()


def test_a_pipeline_without_a_shared_cache_warns_that_they_have_no_effect() -> None:
    (warning,) = read("pipeline_type: LM cache_size: 1000000 " + evicting()).warnings
    assert warning.startswith("cache_size, cache_eviction_config: no effect")


def test_sparse_attention_needs_prompts_in_parts() -> None:
    (warning,) = read("dynamic_split_fuse: false sparse_attention_config {}").warnings
    assert warning.startswith("sparse_attention_config: TRISHAPE has no effect")


@pytest.mark.parametrize(
    ("options", "window"),
    [
        (evicting(), 0),
        (evicting("snapkv_window_size: 1"), 1),
        (evicting("aggregation_mode: SUM"), 8),
        (evicting("aggregation_mode: SUM snapkv_window_size: 32"), 32),
    ],
)
def test_a_window_that_would_crash_the_engine_is_not_used(options: str, window: int) -> None:
    config = scheduler_config(read(options).engine)
    assert config.cache_eviction_config.snapkv_window_size == window


def test_a_requested_window_that_is_not_used_gives_a_warning() -> None:
    (warning,) = read(evicting("snapkv_window_size: 16")).warnings
    assert warning.startswith("cache_eviction_config.snapkv_window_size: 16 is taken as 0")


@pytest.mark.parametrize(
    ("device", "tokens"), [("", 32), ("CPU", 32), ("GPU", 16), ("GPU.1", 16), ("AUTO:GPU,CPU", 32)]
)
def test_a_block_has_the_devices_size(device: str, tokens: int) -> None:
    assert block_tokens(device) == tokens
