"""The graph of ``--task text_generation``, for a model without graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's (``graph_export/graph_export.cpp``,
``graph_export/graph_cli_parser.cpp``). Nothing is written to the directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from calculators.kit.machine import has_slow_bfloat16
from calculators.kit.tasks.task import ModelToServe, TaskError
from calculators.llm.engine.settings import KINDS, NPU, PipelineType
from calculators.llm.model_files import cache_size_for, read_cache_shape
from calculators.llm.options.plugin_config import WEIGHTS_FORM, keep_numbers, read_plugin_config
from calculators.llm.parsers.registry import (
    parser_problem,
    reasoning_parser_names,
    tool_parser_names,
)
from calculators.llm.task_options import TextGenerationOptions
from graph_runtime import ResourceError

_MAX_NUM_SEQS: Final = TextGenerationOptions().max_num_seqs

#: A directory with a model for text generation has the first file and one of the others.
_CONFIG_FILE: Final = "config.json"
_MODEL_FILES: Final = ("openvino_model.xml", "openvino_language_model.xml")

_GGUF: Final = ".gguf"
_PRECISION: Final = "INFERENCE_PRECISION_HINT"

_GRAPH: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "LLMExecutor"
  calculator: "HttpLLMCalculator"
  input_stream: "LOOPBACK:loopback"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  input_side_packet: "LLM_NODE_EXECUTION_CONTEXTS:llm_ctx"
  output_stream: "LOOPBACK:loopback"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
  node_options {
    [type.googleapis.com/mediapipe.LLMCalculatorOptions] {
%s
    }
  }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler"
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGeneration(TextGenerationOptions):
    """The task ``text_generation``: `HttpLLMCalculator` over the model in the graph's directory."""

    def graph(self, model: ModelToServe | None = None) -> str:
        """Return the text of the graph.

        Args:
            model: the model to serve; None: one in the graph's directory, with unknown files.

        Raises:
            TaskError: a parser is unknown, or properties are wrong.
        """
        for option, name, known in (
            ("reasoning_parser", self.reasoning_parser, reasoning_parser_names()),
            ("tool_parser", self.tool_parser, tool_parser_names()),
        ):
            if problem := parser_problem(name, known):
                raise TaskError(f"--{option}: {problem}")
        options: dict[str, str] = {}
        if not self._is_stateful or self.max_num_seqs != _MAX_NUM_SEQS:
            options["max_num_seqs"] = str(self.max_num_seqs)
        if self.target_device:
            options["device"] = _quoted("target_device", self.target_device)
        models_path = "./" if model is None else model.models_path
        options["models_path"] = _quoted("model_path", models_path)
        properties = self._properties()
        if model is not None and self._computes_on_cpu and has_slow_bfloat16():
            properties.setdefault(_PRECISION, "f32")
        if properties:
            options["plugin_config"] = _quoted("plugin_config", json.dumps(properties))
        if not self._is_stateful:
            options["enable_prefix_caching"] = _word(self.enable_prefix_caching)
        if not self._is_stateful or self.cache_size:
            options["cache_size"] = str(self._cache_size(model, properties))
        if self.pipeline_type:
            options["pipeline_type"] = self.pipeline_type
        if self.max_num_batched_tokens is not None:
            options["max_num_batched_tokens"] = str(self.max_num_batched_tokens)
        if self.reasoning_parser:
            options["reasoning_parser"] = f'"{self.reasoning_parser}"'
        if self.tool_parser:
            options["tool_parser"] = f'"{self.tool_parser}"'
        if self.enable_tool_guided_generation:
            options["enable_tool_guided_generation"] = "true"
        if self.cache_interval_multiplier is not None:
            options["cache_interval_multiplier"] = str(self.cache_interval_multiplier)
        if not self.dynamic_split_fuse:
            options["dynamic_split_fuse"] = "false"
        if self.draft_source_model:
            options["draft_models_path"] = _quoted("draft_source_model", self.draft_source_model)
        return _GRAPH % "\n".join(f"      {name}: {value}" for name, value in options.items())

    @property
    def _is_stateful(self) -> bool:
        """True if requests are generated one by one; the scheduler's defaults do not apply then."""
        if self.pipeline_type in ("", "AUTO"):
            return self.target_device == NPU
        return not KINDS[cast(PipelineType, self.pipeline_type)].batches

    @property
    def _computes_on_cpu(self) -> bool:
        return self.target_device in ("", "CPU")

    def _cache_size(self, model: ModelToServe | None, properties: Mapping[str, object]) -> int:
        """Return the option, or a size in GB for the model: only a fixed cache keeps prefixes."""
        if self.cache_size is not None:
            return self.cache_size
        if model is None or not self.enable_prefix_caching or not self._computes_on_cpu:
            return 0
        shape = read_cache_shape(model.path)
        precision = str(properties.get("KV_CACHE_PRECISION", ""))
        return 0 if shape is None else cache_size_for(shape, model.memory, precision)

    def _properties(self) -> dict[str, Any]:
        """Return ``plugin_config`` with the properties that have options of their own."""
        try:
            properties: dict[str, Any] = dict(read_plugin_config(self.plugin_config))
        except ResourceError as error:
            raise TaskError(f"--{error.message}") from None
        is_on_npu = self.target_device.startswith(NPU)
        if self.max_prompt_len is not None and not is_on_npu:
            raise TaskError("--max_prompt_len: only an NPU has it; it needs --target_device NPU")
        for option, value in (
            ("kv_cache_precision", self.kv_cache_precision),
            ("max_prompt_len", self.max_prompt_len),
            ("model_distribution_policy", self.model_distribution_policy),
        ):
            if not value:
                continue
            name = option.upper()
            if name in properties:
                raise TaskError(f"--{option}: --plugin_config sets {name} too; leave one of them")
            properties[name] = value
        if self.exact and properties.setdefault(WEIGHTS_FORM, "exact") == "exact":
            keep_numbers(properties, self.target_device)
        if is_on_npu and self.enable_prefix_caching:
            properties.setdefault("NPUW_LLM_ENABLE_PREFIX_CACHING", True)
        return properties


def holds_model(path: Path) -> bool:
    """Return True if `TextGeneration` can be served from a directory or a file."""
    if path.is_file():
        return path.suffix == _GGUF and not _is_encoder(path)
    return (path / _CONFIG_FILE).is_file() and any((path / name).is_file() for name in _MODEL_FILES)


def _is_encoder(path: Path) -> bool:
    """Return True if a GGUF file's model turns texts into vectors or scores."""
    # Imported here: models in other forms need none of it.
    from calculators.kit.checkpoints.families import pooling_of
    from calculators.kit.checkpoints.gguf import GgufFile

    try:
        return pooling_of(GgufFile(path)) != ""
    except (OSError, ResourceError):  # loading the model reports it with more detail
        return False


def _word(value: bool) -> str:
    return "true" if value else "false"


def _quoted(option: str, text: str) -> str:
    """Quote a string for the text format: its escapes are JSON's, without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TaskError(f"--{option}: the value is not UTF-8") from None
    return json.dumps(text, ensure_ascii=False)
