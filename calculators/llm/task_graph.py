"""The graph of a task, for a model's directory that holds no graph.pbtxt.

Names, defaults and the graph's form are OpenVINO Model Server's (``graph_export/graph_export.cpp``,
``graph_export/graph_cli_parser.cpp``). Nothing is written to the directory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from calculators.llm.engine.engine_settings import NPU
from calculators.llm.engine.pipeline_kind import KINDS, PipelineType
from calculators.llm.options.plugin_config import read_plugin_config
from calculators.llm.parsers.registry import reasoning_parser_names, tool_parser_names
from calculators.llm.task_options import TextGenerationOptions
from calculators.tasks.task import TaskError
from graph_runtime import ResourceError
from graph_runtime.errors import did_you_mean

_MAX_NUM_SEQS: Final = TextGenerationOptions().max_num_seqs

#: What tells a directory with a model for text generation, beside what the user says: the first
#: and one of the others.
_CONFIG_FILE: Final = "config.json"
_MODEL_FILES: Final = ("openvino_model.xml", "openvino_language_model.xml")

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

    def graph(self) -> str:
        """The graph as text, to be served from the model's directory.

        Raises:
            TaskError: a parser that is not known, or properties that cannot be.
        """
        _check_parser("reasoning_parser", self.reasoning_parser, reasoning_parser_names())
        _check_parser("tool_parser", self.tool_parser, tool_parser_names())
        options: dict[str, str] = {}
        if not self._is_stateful or self.max_num_seqs != _MAX_NUM_SEQS:
            options["max_num_seqs"] = str(self.max_num_seqs)
        if self.target_device:
            options["device"] = _quoted("target_device", self.target_device)
        options["models_path"] = '"./"'
        properties = self._properties()
        if properties:
            options["plugin_config"] = _quoted("plugin_config", json.dumps(properties))
        if not self._is_stateful:
            options["enable_prefix_caching"] = _word(self.enable_prefix_caching)
        if not self._is_stateful or self.cache_size:
            options["cache_size"] = str(self.cache_size)
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
        """Will one request be generated at a time? Then the scheduler's defaults mean nothing."""
        if self.pipeline_type in ("", "AUTO"):
            return self.target_device == NPU
        return not KINDS[cast(PipelineType, self.pipeline_type)].batches

    def _properties(self) -> dict[str, Any]:
        """``plugin_config`` with the properties that have options of their own."""
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
        if is_on_npu and self.enable_prefix_caching:
            properties.setdefault("NPUW_LLM_ENABLE_PREFIX_CACHING", True)
        return properties


def holds_model(directory: Path) -> bool:
    """Does a directory hold a model that `TextGeneration` can be served from?"""
    return (directory / _CONFIG_FILE).is_file() and any(
        (directory / name).is_file() for name in _MODEL_FILES
    )


def _check_parser(option: str, name: str, known: Sequence[str]) -> None:
    names = (*known, "none")
    if name and name not in names:
        near = did_you_mean(name, names)
        raise TaskError(f'--{option}: "{name}" is not known.{near} Known are: {", ".join(names)}')


def _word(value: bool) -> str:
    return "true" if value else "false"


def _quoted(option: str, text: str) -> str:
    """A string of the text format, which has all escapes of JSON but half surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TaskError(f"--{option}: the value is not UTF-8") from None
    return json.dumps(text, ensure_ascii=False)
