"""The arguments of `graphrt serve` for a model without a graph.pbtxt: the task and its options.

OpenVINO Model Server's names (``graph_export/graph_cli_parser.cpp``). Imports nothing that takes
time, as `servers.cli.arguments`; `servers.cli.task_graph` makes the graph.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from servers.cli.argument_types import count, count_or_zero, one_of, switch

TASK: Final = "text_generation"
_LATER_TASKS: Final = ("embeddings", "rerank", "image_generation", "text2speech", "speech2text")

#: The options with their types and what ``--help`` says. The names are the fields of
#: `servers.cli.task_graph.TextGeneration`.
_OPTIONS: Final[dict[str, tuple[Callable[[str], object], str, str]]] = {
    "max_num_seqs": (count, "N", "requests that are generated at a time; default 256"),
    "pipeline_type": (
        one_of(("AUTO", "LM_CB", "LM", "VLM_CB", "VLM"), ("OMNI",)),
        "TYPE",
        "AUTO, LM_CB, LM (one request at a time), VLM_CB or VLM (with images); default AUTO",
    ),
    "enable_prefix_caching": (switch, "BOOL", "keep the beginnings of prompts; default true"),
    "max_num_batched_tokens": (count, "N", "tokens in one step of the engine; default 256"),
    "cache_size": (count_or_zero, "GB", "of the key-value cache; default 0, which grows as needed"),
    "dynamic_split_fuse": (switch, "BOOL", "long prompts in several steps; default true"),
    "reasoning_parser": (
        str,
        "NAME",
        "what finds reasoning; by the chat template when unset",
    ),
    "tool_parser": (
        str,
        "NAME",
        "what finds calls of tools; by the chat template when unset",
    ),
    "enable_tool_guided_generation": (switch, "BOOL", "make calls of tools by their schemas"),
    "cache_interval_multiplier": (count, "N", "how much cache is taken at a time"),
    "kv_cache_precision": (one_of(("u8", "")), "TYPE", "u8 takes less memory; default the model's"),
    "max_prompt_len": (count, "N", "tokens of the longest prompt, on an NPU"),
    "draft_source_model": (str, "DIR", "accepted; the model answers without a draft model yet"),
    "model_distribution_policy": (
        one_of(("TENSOR_PARALLEL", "PIPELINE_PARALLEL", "")),
        "POLICY",
        "TENSOR_PARALLEL or PIPELINE_PARALLEL, over several devices",
    ),
    "target_device": (str, "DEVICE", "CPU, GPU, ...; default a GPU if there is one"),
    "plugin_config": (str, "JSON", "OpenVINO properties, as a JSON object"),
}


def add_task_arguments(command: argparse.ArgumentParser) -> None:
    """``--task`` and the options of the tasks."""
    group = command.add_argument_group(
        "a model without a graph",
        "When DIR holds no graph.pbtxt, a graph for its model is made; nothing is written.\n"
        "These are the options of its node.",
    )
    group.add_argument(
        "--task", metavar="TASK", type=one_of((TASK,), _LATER_TASKS), help=f"{TASK}, the default"
    )
    for name, (value_type, metavar, text) in _OPTIONS.items():
        group.add_argument(f"--{name}", metavar=metavar, type=value_type, help=text)


def given_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of the task that stand on the command line."""
    values = {name: getattr(args, name) for name in _OPTIONS}
    return {name: value for name, value in values.items() if value is not None}
