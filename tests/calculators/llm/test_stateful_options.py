"""Options of a node that generates one request at a time, and of an NPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calculators.llm.options.node_options import NodeOptions, read_node_options
from graph_runtime import ResourceError, ResourceSettings
from tests.calculators.llm.demo_model import DEMO
from tests.calculators.llm.graph_texts import plan_of, with_options


def read(options: str, directory: Path = DEMO) -> NodeOptions:
    (node,) = plan_of(with_options(f'models_path: "./"\n{options}')).nodes
    return read_node_options(node, ResourceSettings(directory))


def properties(options: str) -> dict[str, Any]:
    return dict(read(options).engine.plugin_config)


@pytest.mark.parametrize(
    "option",
    [
        'draft_models_path: "./"',
        'draft_device: "CPU"',
        "draft_max_num_batched_tokens: 1",
        "draft_cache_size: 1",
        "draft_block_size: 1",
        "draft_max_num_seqs: 1",
        "draft_dynamic_split_fuse: true",
        "draft_eagle3_mode: false",
        "plugin_config: '{\"prompt_lookup\": true}'",
    ],
)
def test_a_draft_model_is_refused(option: str) -> None:
    with pytest.raises(ResourceError) as caught:
        read(f"pipeline_type: LM {option}")
    field = option.partition(":")[0]
    assert f"{field}: " in str(caught.value)
    assert "use pipeline_type LM_CB" in str(caught.value)


@pytest.mark.parametrize(
    "option",
    [
        "cache_size: 0",
        "max_num_batched_tokens: 256",
        "max_num_seqs: 8",
        "dynamic_split_fuse: false",
        "enable_prefix_caching: true",
        "cache_interval_multiplier: 2",
        "cache_eviction_config { start_size: 32 recent_size: 32 max_cache_size: 96 }",
        "sparse_attention_config { }",
    ],
)
def test_given_options_without_effect_give_a_warning(option: str) -> None:
    field = option.split()[0].rstrip(":")
    assert any(
        text.startswith(f"{field}: no effect with pipeline_type LM")
        for text in read(f"pipeline_type: LM {option}").warnings
    )
    assert not any("no effect" in text for text in read(option).warnings)


def test_without_options_there_is_no_warning() -> None:
    assert read("pipeline_type: LM").warnings == ()
    assert read('device: "NPU"').warnings == ()


def test_another_attention_backend_gives_a_warning() -> None:
    (warning,) = read('pipeline_type: LM plugin_config: \'{"ATTENTION_BACKEND": "PA"}\'').warnings
    assert warning == "plugin_config: ATTENTION_BACKEND: pipeline_type LM always uses SDPA"


@pytest.mark.parametrize(
    ("config", "longest"),
    [
        ("{}", 1024),
        ('{"MAX_PROMPT_LEN": 2048}', 2048),
        ('{"DEVICE_PROPERTIES": {"NPU": {"MAX_PROMPT_LEN": 512}}}', 512),
        ('{"DEVICE_PROPERTIES": {"CPU": {"MAX_PROMPT_LEN": 512}}}', 1024),
        ('{"MAX_PROMPT_LEN": 9, "DEVICE_PROPERTIES": {"NPU": {"MAX_PROMPT_LEN": 9}}}', 9),
    ],
)
def test_an_npu_has_a_longest_prompt(config: str, longest: int) -> None:
    options = read(f"device: \"NPU\" plugin_config: '{config}'")
    assert options.max_prompt_tokens == longest
    assert options.engine.pipeline_type == "LM"
    assert options.engine.plugin_config.get("MAX_PROMPT_LEN", 1024) == longest


@pytest.mark.parametrize("device", ["", 'device: "CPU"', 'device: "GPU.0"'])
def test_other_devices_have_no_longest_prompt(device: str) -> None:
    assert read(f"pipeline_type: LM {device}").max_prompt_tokens is None


@pytest.mark.parametrize("value", ['"2048"', "0", "-1", "1.5", "true"])
@pytest.mark.parametrize(
    ("config", "place"),
    [
        ('{"MAX_PROMPT_LEN": VALUE}', "MAX_PROMPT_LEN"),
        (
            '{"DEVICE_PROPERTIES": {"NPU": {"MAX_PROMPT_LEN": VALUE}}}',
            "DEVICE_PROPERTIES.NPU.MAX_PROMPT_LEN",
        ),
    ],
)
def test_an_invalid_length_is_refused(config: str, place: str, value: str) -> None:
    with pytest.raises(ResourceError) as caught:
        read(f"device: \"NPU\" plugin_config: '{config.replace('VALUE', value)}'")
    assert f"plugin_config: {place}: must be a number of tokens from 1 on" in str(caught.value)


def test_two_lengths_are_refused() -> None:
    config = '{"MAX_PROMPT_LEN": 9, "DEVICE_PROPERTIES": {"NPU": {"MAX_PROMPT_LEN": 8}}}'
    with pytest.raises(ResourceError, match="MAX_PROMPT_LEN is 9, and 8 in DEVICE"):
        read(f"device: \"NPU\" plugin_config: '{config}'")


@pytest.mark.parametrize(
    ("device", "shown"), [('device: "CPU"', 'device is "CPU"'), ("", "device is not set")]
)
def test_a_length_for_another_device_is_refused(device: str, shown: str) -> None:
    with pytest.raises(ResourceError, match=f"MAX_PROMPT_LEN: only device NPU has it; {shown}"):
        read(f"pipeline_type: LM {device} plugin_config: '{{\"MAX_PROMPT_LEN\": 9}}'")


def test_properties_of_an_npu_reach_a_text_model_at_the_top_level() -> None:
    given = '{"A": "1", "DEVICE_PROPERTIES": {"NPU": {"MIN_RESPONSE_LEN": 64}, "CPU": {"B": "2"}}}'
    assert properties(f"device: \"NPU\" plugin_config: '{given}'") == {
        "A": "1",
        "MIN_RESPONSE_LEN": 64,
        "DEVICE_PROPERTIES": {"CPU": {"B": "2"}},
    }
    assert "MIN_RESPONSE_LEN" not in properties(f"device: \"CPU\" plugin_config: '{given}'")
