"""Options of an LLM node: their effects, and the errors of invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.llm.engine.library_config import scheduler_config
from calculators.llm.engine.settings import CacheEviction, SparseAttention
from calculators.llm.options.node_options import NodeOptions, read_node_options
from graph_runtime import Code, ResourceError, ResourceSettings
from tests.calculators.llm.demo_model import DEMO, copy_of_demo
from tests.calculators.llm.graph_texts import plan_of, with_options


def read(options: str, directory: Path = DEMO, **settings: Any) -> NodeOptions:
    if "models_path" not in options:
        options = 'models_path: "./" ' + options
    (node,) = plan_of(with_options(options)).nodes
    return read_node_options(node, ResourceSettings(directory, **settings))


def refusal(options: str, directory: Path = DEMO) -> str:
    with pytest.raises(ResourceError) as caught:
        read(options, directory)
    assert caught.value.code is Code.FAILED_PRECONDITION
    text = str(caught.value)
    assert text.startswith('node "LLMExecutor": ')
    return text.removeprefix('node "LLMExecutor": ')


def test_without_options_the_engine_has_the_defaults_of_openvino_model_server() -> None:
    options = read("")
    engine = options.engine
    assert Path(engine.model_path) == options.model_path == options.model_directory == DEMO
    assert (engine.device, engine.cache_size, engine.plugin_config) == ("", 0, {})
    assert (engine.max_num_batched_tokens, engine.max_num_seqs) == (256, 256)
    assert engine.dynamic_split_fuse
    assert not engine.enable_prefix_caching
    assert engine.cache_eviction is None
    assert engine.sparse_attention is None
    assert engine.cache_interval_multiplier is None
    assert (options.best_of_limit, options.max_tokens_limit) == (20, None)
    assert (options.tool_parser, options.reasoning_parser) == ("", "")
    assert not options.enable_tool_guided_generation
    assert options.warnings == ()


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("max_num_batched_tokens: 1024", "max_num_batched_tokens", 1024),
        ("cache_size: 7", "cache_size", 7),
        ("max_num_seqs: 95", "max_num_seqs", 95),
        ("dynamic_split_fuse: false", "dynamic_split_fuse", False),
        ("enable_prefix_caching: true", "enable_prefix_caching", True),
        ("cache_interval_multiplier: 4", "cache_interval_multiplier", 4),
        ('device: "GPU.0"', "device", "GPU.0"),
        (
            "cache_eviction_config { start_size: 32 recent_size: 64 max_cache_size: 128 }",
            "cache_eviction",
            CacheEviction(start_size=32, recent_size=64, max_cache_size=128),
        ),
        (
            "cache_eviction_config { start_size: 32 recent_size: 64 max_cache_size: 160"
            " aggregation_mode: SUM apply_rotation: false snapkv_window_size: 16"
            " kv_crush_config { anchor_point_mode: ONES budget: 1 rng_seed: 42 } }",
            "cache_eviction",
            CacheEviction(
                start_size=32,
                recent_size=64,
                max_cache_size=160,
                aggregation_mode="SUM",
                snapkv_window_size=16,
                kv_crush_budget=1,
                kv_crush_anchor_point_mode="ONES",
                kv_crush_rng_seed=42,
            ),
        ),
        ("sparse_attention_config {}", "sparse_attention", SparseAttention()),
        (
            'device: "GPU" '
            "sparse_attention_config { mode: XATTENTION num_last_dense_tokens_in_prefill: 1"
            " num_retained_start_tokens_in_cache: 2 num_retained_recent_tokens_in_cache: 3"
            " xattention_threshold: 0.5 xattention_block_size: 96 xattention_stride: 48 }",
            "sparse_attention",
            SparseAttention(
                mode="XATTENTION",
                num_last_dense_tokens_in_prefill=1,
                num_retained_start_tokens_in_cache=2,
                num_retained_recent_tokens_in_cache=3,
                xattention_threshold=0.5,
                xattention_block_size=96,
                xattention_stride=48,
            ),
        ),
    ],
)
def test_options_reach_the_engine(text: str, name: str, value: object) -> None:
    assert getattr(read(text).engine, name) == value


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("best_of_limit: 3", "best_of_limit", 3),
        ("max_tokens_limit: 700", "max_tokens_limit", 700),
        ("max_tokens_limit: 0", "max_tokens_limit", 0),
        ('tool_parser: "hermes3"', "tool_parser", "hermes3"),
        ('tool_parser: "none"', "tool_parser", "none"),
        ('reasoning_parser: "qwen3"', "reasoning_parser", "qwen3"),
        ("enable_tool_guided_generation: true", "enable_tool_guided_generation", True),
        ("pipeline_type: AUTO", "warnings", ()),
        ("pipeline_type: LM_CB", "warnings", ()),
        ("chat_template_mode: JINJA", "warnings", ()),
    ],
)
def test_options_reach_the_server(text: str, name: str, value: object) -> None:
    assert getattr(read(text), name) == value


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("", {}),
        ("{}", {}),
        ('{"PERFORMANCE_HINT": "LATENCY"}', {"PERFORMANCE_HINT": "LATENCY"}),
        ('{"A": 1, "B": 0.5, "C": true}', {"A": 1, "B": 0.5, "C": True}),
        ('{"NUM_STREAMS": 2}', {"NUM_STREAMS": "2"}),
        (
            '{"DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": "1"}}}',
            {"DEVICE_PROPERTIES": {"CPU": {"NUM_STREAMS": "1"}}},
        ),
    ],
)
def test_a_plugin_config_is_parsed_as_json(text: str, config: dict[str, object]) -> None:
    assert read(f"plugin_config: '{text}'").engine.plugin_config == config


def test_a_node_may_have_a_cache_directory_of_its_own() -> None:
    assert read("", cache_dir="/cache").engine.plugin_config == {}
    own = read("""plugin_config: '{"CACHE_DIR": "/own"}'""", cache_dir="/cache")
    assert own.engine.plugin_config == {"CACHE_DIR": "/own"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("plugin_config: '[PERF_COUNT=TRUE]'", ["plugin_config: ", "not JSON"]),
        ("plugin_config: '[1]'", ["plugin_config: ", "must be a JSON object"]),
        ("plugin_config: '{\"A\": null}'", ["plugin_config: ", '"A"']),
        ("plugin_config: '{\"A\": [1]}'", ["plugin_config: ", '"A"']),
        ('plugin_config: \'{"A": 1' + "0" * 30 + "}'", ["plugin_config: ", '"A"']),
        ('plugin_config: \'{"A": "\\\\ud800"}\'', ["plugin_config: "]),
        ('plugin_config: \'{"DEVICE_PROPERTIES": {"CPU": 1}}\'', ["DEVICE_PROPERTIES"]),
        (
            'plugin_config: \'{"DEVICE_PROPERTIES": {"CPU": {"A": [1]}}}\'',
            ["plugin_config: ", "DEVICE_PROPERTIES"],
        ),
        ("max_num_batched_tokens: 0", ["max_num_batched_tokens: "]),
        ("max_num_seqs: 0", ["max_num_seqs: "]),
        ("best_of_limit: 0", ["best_of_limit: "]),
        ('tool_parser: "herms"', ["tool_parser: ", '"herms"', "hermes"]),
        ('reasoning_parser: "x"', ["reasoning_parser: ", "qwen3"]),
        ("pipeline_type: VLM", ["pipeline_type: ", "VLM", "LM_CB"]),
        ("pipeline_type: VLM_CB", ["pipeline_type: "]),
        ("pipeline_type: OMNI", ["pipeline_type: ", "openvino_talker_model.xml", "LM_CB"]),
        ('pipeline_type: LM_CB device: "NPU"', ["pipeline_type: ", "NPU"]),
        ("draft_cache_size: 1", ["draft_cache_size: ", "draft_models_path"]),
        ('draft_device: "CPU"', ["draft_device: "]),
        ('models_path: "no/such/model"', ["models_path: ", '"no/such/model"', "does not exist"]),
        ('models_path: "config.json"', ["models_path: ", "gguf"]),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: str, words: list[str]) -> None:
    text = refusal(options)
    assert all(word in text for word in words), text
    assert str(DEMO) not in text


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ("", "LM_CB"),
        ("pipeline_type: LM", "LM"),
        ('device: "NPU"', "LM"),
        ('device: "AUTO:NPU"', "LM_CB"),
    ],
)
def test_the_pipeline_follows_from_the_files_and_the_device(options: str, kind: str) -> None:
    assert read(options).engine.pipeline_type == kind


def test_options_without_effect_give_a_warning() -> None:
    (warning,) = read("chat_template_mode: MINJA").warnings
    assert warning.startswith("chat_template_mode: ")


def test_a_node_without_options_is_refused_with_what_it_needs() -> None:
    text = with_options("")
    start, end = text.index("  node_options"), text.index("  input_stream_handler")
    (node,) = plan_of(text[:start] + text[end:]).nodes
    with pytest.raises(ResourceError, match="no options") as caught:
        read_node_options(node, ResourceSettings(DEMO))
    assert "LLMCalculatorOptions" in str(caught.value)


# Files of the model -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        "openvino_model.xml",
        "openvino_model.bin",
        "openvino_tokenizer.xml",
        "openvino_detokenizer.xml",
    ],
)
def test_a_missing_or_empty_file_is_named(file: str, tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model", without=file)
    text = refusal('models_path: "./"', folder)
    assert f'"./" has no {file}' in text
    (folder / file).touch()
    assert f"{file} is empty" in refusal("", folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_a_truncated_file_is_named(file: str, tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "model", without=file)
    (folder / file).write_text('{"model_type": "lla')
    assert f"{file} is not JSON, or only a part of it" in refusal('models_path: "./"', folder)


def test_a_path_may_be_absolute_or_start_at_the_graph(tmp_path: Path) -> None:
    folder = copy_of_demo(tmp_path / "models" / "demo")
    for path in (str(folder), "models/demo", "./models/demo/"):
        assert read(f'models_path: "{path}"', tmp_path).model_path == folder


def test_a_gguf_files_other_files_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    options = read('models_path: "model.gguf"', tmp_path)
    assert options.model_path == tmp_path / "model.gguf"
    assert options.model_directory == tmp_path


# The library's scheduler --------------------------------------------------------------------------


def test_all_options_reach_the_scheduler() -> None:
    config = scheduler_config(
        read(
            "max_num_batched_tokens: 1024 cache_size: 1 max_num_seqs: 95 dynamic_split_fuse: false"
            " enable_prefix_caching: true cache_interval_multiplier: 4"
        ).engine
    )
    assert config.max_num_batched_tokens == 1024
    assert config.cache_size == 1
    assert config.max_num_seqs == 95
    assert config.cache_interval_multiplier == 4
    assert not config.dynamic_split_fuse
    assert config.enable_prefix_caching
    assert not config.use_cache_eviction
    assert not config.use_sparse_attention


@pytest.mark.parametrize("mode", ["RANDOM", "ZEROS", "ONES", "MEAN", "ALTERNATING"])
def test_options_of_eviction_reach_the_scheduler(mode: str) -> None:
    config = scheduler_config(
        read(
            "cache_eviction_config { start_size: 32 recent_size: 128 max_cache_size: 672"
            " aggregation_mode: SUM snapkv_window_size: 16"
            f" kv_crush_config {{ anchor_point_mode: {mode} budget: 1 rng_seed: 42 }} }}"
        ).engine
    )
    assert config.use_cache_eviction
    eviction = config.cache_eviction_config
    assert eviction.get_start_size() == 32
    assert eviction.get_recent_size() == 128
    assert eviction.get_max_cache_size() == 672
    assert eviction.aggregation_mode.name == "SUM"
    assert not eviction.apply_rotation
    assert eviction.snapkv_window_size == 16
    crush = eviction.kvcrush_config
    assert (crush.anchor_point_mode.name, crush.budget, crush.rng_seed) == (mode, 1, 42)


def test_sparse_attention_has_the_schedulers_defaults() -> None:
    given: Callable[[str], Any] = lambda text: scheduler_config(read(text).engine)  # noqa: E731
    config = given("sparse_attention_config {}")
    assert config.use_sparse_attention
    assert config.sparse_attention_config.mode.name == "TRISHAPE"
    assert config.sparse_attention_config.num_last_dense_tokens_in_prefill == 100
    assert config.sparse_attention_config.num_retained_recent_tokens_in_cache == 1920
    config = given('device: "GPU" sparse_attention_config {mode: XATTENTION xattention_stride: 16}')
    assert config.sparse_attention_config.mode.name == "XATTENTION"
    assert config.sparse_attention_config.xattention_stride == 16
    assert config.sparse_attention_config.xattention_block_size == 64
