"""The options for one model: of the graph that is made for a task, and of a plain model.

Names are OpenVINO Model Server's (``graph_export/graph_cli_parser.cpp``, ``cli_parser.cpp``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from calculators.settings.declaration import option
from calculators.settings.value_types import count, count_or_zero, one_of, switch
from servers.options.groups import MODEL, TASK

TEXT_GENERATION: Final = "text_generation"
_LATER_TASKS: Final = ("embeddings", "rerank", "image_generation", "text2speech", "speech2text")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """The task of a model without a graph."""

    task: str | None = option(
        None,
        f"{TEXT_GENERATION}, the default",
        group=TASK,
        metavar="TASK",
        reads=one_of((TEXT_GENERATION,), _LATER_TASKS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of the node that serves text generation.

    None and "" leave a choice to the engine, the model's files or the chat template.
    """

    max_num_seqs: int = option(
        256,
        "requests that are generated at a time; default {default}",
        group=TASK,
        metavar="N",
        reads=count,
    )
    pipeline_type: str = option(
        "",
        "AUTO, LM_CB, LM (one request at a time), VLM_CB or VLM (with images); default AUTO",
        group=TASK,
        metavar="TYPE",
        reads=one_of(("AUTO", "LM_CB", "LM", "VLM_CB", "VLM"), ("OMNI",)),
    )
    enable_prefix_caching: bool = option(
        True,
        "keep the beginnings of prompts; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    max_num_batched_tokens: int | None = option(
        None,
        "tokens in one step of the engine; default 256",
        group=TASK,
        metavar="N",
        reads=count,
    )
    cache_size: int = option(
        0,
        "of the key-value cache; default {default}, which grows as needed",
        group=TASK,
        metavar="GB",
        reads=count_or_zero,
    )
    dynamic_split_fuse: bool = option(
        True,
        "long prompts in several steps; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    reasoning_parser: str = option(
        "",
        "what finds reasoning; by the chat template when unset",
        group=TASK,
        metavar="NAME",
    )
    tool_parser: str = option(
        "",
        "what finds calls of tools; by the chat template when unset",
        group=TASK,
        metavar="NAME",
    )
    enable_tool_guided_generation: bool = option(
        False,
        "make calls of tools by their schemas",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    cache_interval_multiplier: int | None = option(
        None, "how much cache is taken at a time", group=TASK, metavar="N", reads=count
    )
    kv_cache_precision: str = option(
        "",
        "u8 takes less memory; default the model's",
        group=TASK,
        metavar="TYPE",
        reads=one_of(("u8", "")),
    )
    max_prompt_len: int | None = option(
        None, "tokens of the longest prompt, on an NPU", group=TASK, metavar="N", reads=count
    )
    draft_source_model: str = option(
        "",
        "accepted; the model answers without a draft model yet",
        group=TASK,
        metavar="DIR",
    )
    model_distribution_policy: str = option(
        "",
        "TENSOR_PARALLEL or PIPELINE_PARALLEL, over several devices",
        group=TASK,
        metavar="POLICY",
        reads=one_of(("TENSOR_PARALLEL", "PIPELINE_PARALLEL", "")),
    )
    target_device: str = option(
        "",
        "CPU, GPU, ...; default a GPU if there is one",
        group=TASK,
        metavar="DEVICE",
        config_key="{flag}",
    )
    plugin_config: str = option(
        "",
        "OpenVINO properties, as a JSON object",
        group=TASK,
        metavar="JSON",
        config_key="{flag}",
    )


def _key(metavar: str, help_text: str, reads: Callable[[str], object] = str) -> Any:
    """A field whose flag is a key of ``model_config_list`` too."""
    return option(None, help_text, group=MODEL, metavar=metavar, reads=reads, config_key="{flag}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The options of a plain model, as they are written; `servers.config` checks them."""

    shape: str | None = _key(
        "SHAPE", '"(1,3,224,224)", with -1 or 2:8 for lengths that vary; or auto'
    )
    batch_size: str | None = _key("N", "a number, a range 2:8, or auto")
    layout: str | None = _key("LAYOUT", "NHWC:NCHW: what clients send, and what the model takes")
    precision: str | None = _key("TYPES", "uint8:fp32: what clients send, and what the model takes")
    color_format: str | None = _key(
        "FORMATS", "RGB:BGR: what the model takes, and what clients send"
    )
    mean: str | None = _key(
        "NUMBERS", "taken from what clients send: 127.5, or one per channel, [1,2,3]"
    )
    scale: str | None = _key("NUMBERS", "what that is divided by")
    model_version_policy: str | None = _key("JSON", '{"latest": {"num_versions": 1}}, the default')
    nireq: int | None = _key(
        "N", "inferences at a time; default 0, as OpenVINO advises", count_or_zero
    )


#: Of the options of a task these are of plain models too.
SHARED: Final[tuple[str, ...]] = ("target_device", "plugin_config")
