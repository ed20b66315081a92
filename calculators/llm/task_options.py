"""The options of the task ``text_generation``, and the operator's settings of all its models.

Names of options are OpenVINO Model Server's (``graph_export/graph_cli_parser.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.requests.request_queue import RequestQueue
from calculators.kit.settings.declaration import RUNNING, TASK, option
from calculators.kit.settings.value_types import count, count_or_zero, one_of, switch
from calculators.kit.tasks.task import DeviceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSettings(RequestQueue):
    """Flags of language models, and the bound on the requests of one engine."""

    verbose_response: bool = option(
        False,
        "answers show the prompt as the model got it, and the raw text it wrote",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )
    infill_supersede: bool = option(
        False,
        "a client's new request to fill in text ends the one before, which nobody waits for; a "
        "client is a key and an address, or who the request says with user; workers share it, "
        "replicas on Ray do not",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )
    show_tokenizer: bool = option(
        False,
        "/tokenizer_info, /props and /api/show give clients the chat template and the tokens "
        "around texts; the prompt that a chat becomes is given in any case",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )
    special_tokens_in_text: bool = option(
        False,
        "special tokens in the text of messages act as such, as with most servers: a text can end "
        "its turn and speak for the system",
        group=RUNNING,
        metavar="BOOL",
        reads=switch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGenerationOptions(DeviceOptions):
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
        "AUTO, LM_CB, LM (one request at a time), VLM_CB or VLM (with images), OMNI (with sound in "
        "and out); default AUTO",
        group=TASK,
        metavar="TYPE",
        reads=one_of(("AUTO", "LM_CB", "LM", "VLM_CB", "VLM", "OMNI")),
    )
    enable_prefix_caching: bool = option(
        True,
        "keep computed prompts for later ones with the same beginning; default {default}",
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
    cache_size: int | None = option(
        None,
        "size of the key-value cache, reserved at the start and filled in use; 0 grows as needed, "
        "and keeps few prompts; default by the model and the memory of the machine",
        group=TASK,
        metavar="GB",
        reads=count_or_zero,
    )
    dynamic_split_fuse: bool = option(
        True,
        "read long prompts in several steps; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    reasoning_parser: str = option(
        "",
        "parser of reasoning; default by the chat template",
        group=TASK,
        metavar="NAME",
    )
    tool_parser: str = option(
        "",
        "parser of tool calls; default by the chat template",
        group=TASK,
        metavar="NAME",
    )
    enable_tool_guided_generation: bool = option(
        False,
        "make calls follow the schemas of tools",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    cache_interval_multiplier: int | None = option(
        None,
        "blocks of the cache between two copies of a recurrent state",
        group=TASK,
        metavar="N",
        reads=count,
    )
    exact: bool = option(
        False,
        "compute with a GGUF file's own numbers, without rounding any; slower",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    kv_cache_precision: str = option(
        "",
        "u8 or u4 take less memory; default the model's",
        group=TASK,
        metavar="TYPE",
        reads=one_of(("u8", "u4", "")),
    )
    max_prompt_len: int | None = option(
        None, "tokens of the longest prompt on an NPU", group=TASK, metavar="N", reads=count
    )
    draft_source_model: str = option(
        "",
        "a small model that proposes tokens: a directory, or a name of a hub's model; needs the "
        "same tokenizer",
        group=TASK,
        metavar="MODEL",
        aliases=("draft_model_path",),
    )
    model_distribution_policy: str = option(
        "",
        "TENSOR_PARALLEL or PIPELINE_PARALLEL, over several devices",
        group=TASK,
        metavar="POLICY",
        reads=one_of(("TENSOR_PARALLEL", "PIPELINE_PARALLEL", "")),
    )
