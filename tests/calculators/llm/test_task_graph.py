"""Generated graphs of models without one, in OpenVINO Model Server's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import calculators
from calculators.kit.tasks import TaskError
from calculators.llm.task_graph import TextGeneration, holds_model
from graph_runtime import (
    REGISTRY,
    Registry,
    find_options,
    load_graph_config,
    validate_graph,
)
from servers.serving.graph_source import GraphSource, request_stream_of, response_stream_of

OPTIONS = "mediapipe.LLMCalculatorOptions"


@pytest.fixture(scope="module")
def registry() -> Registry:
    calculators.register_all(REGISTRY)
    return Registry(REGISTRY)


def node_of(folder: Path, task: TextGeneration) -> Any:
    """Return the one node of the graph, read back from a file."""
    path = folder / "graph.pbtxt"
    path.write_text(task.graph(), encoding="utf-8")
    (node,) = load_graph_config(path).node
    return node


def options_of(folder: Path, task: TextGeneration) -> dict[str, Any]:
    """Return the options that are set, with enums by name."""
    options = find_options(node_of(folder, task), OPTIONS)
    return {
        field.name: field.enum_type.values_by_number[value].name if field.enum_type else value
        for field, value in options.ListFields()
    }


def test_the_graph_is_one_llm_node_in_cycles(tmp_path: Path, registry: Registry) -> None:
    node = node_of(tmp_path, TextGeneration())
    assert (node.name, node.calculator) == ("LLMExecutor", "HttpLLMCalculator")
    assert list(node.input_stream) == ["LOOPBACK:loopback", "HTTP_REQUEST_PAYLOAD:input"]
    assert list(node.output_stream) == ["LOOPBACK:loopback", "HTTP_RESPONSE_PAYLOAD:output"]
    assert list(node.input_side_packet) == [
        "LLM_NODE_RESOURCES:llm",
        "LLM_NODE_EXECUTION_CONTEXTS:llm_ctx",
    ]
    assert node.input_stream_handler.input_stream_handler == "SyncSetInputStreamHandler"

    plan = validate_graph(load_graph_config(tmp_path / "graph.pbtxt"), registry=registry)
    assert request_stream_of(plan) == "input"
    assert response_stream_of(plan) == "output"
    assert plan.warnings == ()


def test_a_generated_graph_needs_no_file(registry: Registry) -> None:
    source = GraphSource("nowhere/graph.pbtxt", registry, text=TextGeneration().graph())
    assert source.queue_size() == 0
    assert len(source.validate().nodes) == 1


def test_options_that_are_not_given_have_the_defaults_of_the_command_line(tmp_path: Path) -> None:
    assert options_of(tmp_path, TextGeneration()) == {
        "max_num_seqs": 256,
        "models_path": "./",
        "enable_prefix_caching": True,
        "cache_size": 0,
    }


@pytest.mark.parametrize(
    "task",
    [
        TextGeneration(pipeline_type="LM"),
        TextGeneration(pipeline_type="VLM", enable_prefix_caching=False),
        TextGeneration(target_device="NPU"),
        TextGeneration(target_device="NPU", pipeline_type="AUTO"),
    ],
)
def test_the_schedulers_defaults_are_left_out_where_one_request_runs_at_a_time(
    tmp_path: Path, task: TextGeneration
) -> None:
    expected = {"models_path": "./"}
    if task.pipeline_type:
        expected["pipeline_type"] = task.pipeline_type
    if task.target_device:
        expected["device"] = task.target_device
    given = options_of(tmp_path, task)
    assert {name: given[name] for name in given if name != "plugin_config"} == expected


def test_options_of_the_scheduler_that_were_given_are_kept(tmp_path: Path) -> None:
    given = options_of(tmp_path, TextGeneration(pipeline_type="LM", max_num_seqs=8, cache_size=1))
    assert given["max_num_seqs"] == 8
    assert given["cache_size"] == 1


def test_every_option_reaches_the_node(tmp_path: Path) -> None:
    draft = 'drafts/"odd" \\ name\nß'
    task = TextGeneration(
        max_num_seqs=7,
        pipeline_type="LM_CB",
        enable_prefix_caching=False,
        max_num_batched_tokens=512,
        cache_size=3,
        dynamic_split_fuse=False,
        reasoning_parser="qwen3",
        tool_parser="hermes3",
        enable_tool_guided_generation=True,
        cache_interval_multiplier=2,
        draft_source_model=draft,
        target_device="HETERO:GPU.0,CPU",
    )
    assert options_of(tmp_path, task) == {
        "max_num_seqs": 7,
        "device": "HETERO:GPU.0,CPU",
        "models_path": "./",
        "enable_prefix_caching": False,
        "cache_size": 3,
        "pipeline_type": "LM_CB",
        "max_num_batched_tokens": 512,
        "reasoning_parser": "qwen3",
        "tool_parser": "hermes3",
        "enable_tool_guided_generation": True,
        "cache_interval_multiplier": 2,
        "dynamic_split_fuse": False,
        "draft_models_path": draft,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"plugin_config": '{"NUM_STREAMS": "1"}', "kv_cache_precision": "u8"},
            {"NUM_STREAMS": "1", "KV_CACHE_PRECISION": "u8"},
        ),
        (
            {"model_distribution_policy": "TENSOR_PARALLEL"},
            {"MODEL_DISTRIBUTION_POLICY": "TENSOR_PARALLEL"},
        ),
        (
            {"target_device": "NPU", "max_prompt_len": 2048},
            {"MAX_PROMPT_LEN": 2048, "NPUW_LLM_ENABLE_PREFIX_CACHING": True},
        ),
        (
            {"target_device": "NPU", "enable_prefix_caching": False, "max_prompt_len": 1},
            {"MAX_PROMPT_LEN": 1},
        ),
    ],
)
def test_properties_are_merged_into_the_plugin_config(
    tmp_path: Path, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    given = options_of(tmp_path, TextGeneration(**options))
    assert json.loads(given["plugin_config"]) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tool_parser": "herms"}, '--tool_parser: "herms" is not known. Did you mean "hermes"'),
        ({"reasoning_parser": "x"}, '--reasoning_parser: "x" is not known. Known are: hermes, '),
        ({"plugin_config": "{"}, "--plugin_config: not JSON: "),
        ({"plugin_config": "[1]"}, "--plugin_config: must be a JSON object"),
        ({"plugin_config": '{"A": [1]}'}, 'the value of "A" must be a string'),
        (
            {"plugin_config": '{"KV_CACHE_PRECISION": "u8"}', "kv_cache_precision": "u8"},
            "--kv_cache_precision: --plugin_config sets KV_CACHE_PRECISION too",
        ),
        ({"max_prompt_len": 9}, "--max_prompt_len: only an NPU has it"),
        ({"draft_source_model": "\udcff"}, "--draft_source_model: the value is not UTF-8"),
    ],
)
def test_invalid_values_of_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError) as raised:
        TextGeneration(**options).graph()
    assert message in str(raised.value)


def test_a_model_is_recognised_by_its_files(tmp_path: Path) -> None:
    assert not holds_model(tmp_path)
    (tmp_path / "config.json").touch()
    assert not holds_model(tmp_path)
    (tmp_path / "openvino_model.xml").touch()
    assert holds_model(tmp_path)


def test_a_vision_model_is_recognised_by_its_files(tmp_path: Path) -> None:
    (tmp_path / "openvino_language_model.xml").touch()
    assert not holds_model(tmp_path)
    (tmp_path / "config.json").touch()
    assert holds_model(tmp_path)
