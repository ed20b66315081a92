"""Tables of every member that OpenVINO Model Server, OpenAI or vLLM know, with its outcome."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import Any, Final

from tests.calculators.llm.api.openai.field_outcomes import (
    Effect,
    NoEffect,
    Refusal,
    Table,
    form,
    setting,
    template,
)

SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "integer"}}}
FLAT_TOOL: Final = {"type": "function", "name": "f", "parameters": {"type": "object"}}
FUNCTION: Final = {"name": "f", "parameters": {"type": "object"}}
TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
OF_OTHERS: Final = [
    "models",
    "mode",
    "speed",
    "reasoning_format",
    "search_options",
    "conversation_id",
    "thread",
    "thread_id",
    "prompt_id",
]
_STREAM: Final = {"stream": True}
_BEAMS: Final = {"best_of": 4}
_TAG: Final = '{"type": "structural_tag", "format": {"type": "const_string", "value": "x"}}'


def names(request: Any) -> list[str]:
    """Return the names of the tools that may be called."""
    return [tool["function"]["name"] for tool in request.tools.items]


#: Members of all endpoints.
COMMON: Table = {
    "model": (Effect("other", attrgetter("model"), "other"), Refusal("")),
    "stream": (Effect(True, attrgetter("stream"), True),),
    # Choosing answers.
    "temperature": (Effect(0.5, setting("temperature"), 0.5), Effect(0, setting("top_k"), None)),
    "top_p": (Effect(0.5, setting("top_p"), 0.5),),
    "min_p": (Effect(0.1, setting("min_p"), 0.1),),
    "top_k": (
        Effect(5, setting("top_k"), 5),
        Effect(-1, setting("top_k"), None),
        Effect(0, setting("top_k"), None),
    ),
    "seed": (Effect(7, setting("rng_seed"), 7), Effect(-1, setting("rng_seed"), 2**32 - 1)),
    "frequency_penalty": (Effect(0.5, setting("frequency_penalty"), 0.5),),
    "presence_penalty": (Effect(0.5, setting("presence_penalty"), 0.5),),
    "repetition_penalty": (Effect(1.5, setting("repetition_penalty"), 1.5),),
    "length_penalty": (Effect(0.5, setting("length_penalty"), 0.5, _BEAMS),),
    "best_of": (Effect(3, setting("num_beams"), 3), Refusal(3, beside=_STREAM)),
    "logit_bias": (Refusal({"5": 1}), NoEffect({})),
    "bad_words": (Refusal(["x"]),),
    "allowed_token_ids": (Refusal([1]),),
    "logits_processors": (Refusal(["x"]),),
    "use_beam_search": (Refusal(True), NoEffect(False)),
    # Ending answers.
    "stop": (Effect(["a"], setting("stop_strings"), ("a",)),),
    "include_stop_str_in_output": (Effect(True, attrgetter("include_stop_str_in_output"), True),),
    "stop_token_ids": (Effect([5], setting("stop_token_ids"), (5,)),),
    "ignore_eos": (Effect(True, setting("ignore_eos"), True, {"max_tokens": 5}),),
    "min_tokens": (Effect(2, setting("min_new_tokens"), 2),),
    # For models with a draft model, or prompt look-up; see `test_assisted_decoding`.
    "num_assistant_tokens": (Refusal(3), NoEffect(0)),
    "assistant_confidence_threshold": (Refusal(0.5), NoEffect(0)),
    "max_ngram_size": (Refusal(3), NoEffect(0)),
    # Form of answers.
    "skip_special_tokens": (Effect(False, attrgetter("skip_special_tokens"), False),),
    "spaces_between_special_tokens": (NoEffect(False),),
    "response_format": (
        Effect({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, form, "json_schema"),
        Effect({"type": "json_object"}, form, "json_schema"),
        Refusal({"type": "xml"}, "response_format.type"),
        NoEffect({"type": "text"}),
    ),
    "guided_json": (Effect(SCHEMA, form, "json_schema"),),
    "guided_regex": (Effect("a+", form, "regex"),),
    "guided_choice": (Effect(["a", "b"], form, "choice"),),
    "guided_grammar": (Effect('root ::= "a"', form, "grammar"),),
    "json_schema": (Effect(json.dumps(SCHEMA), form, "json_schema"),),
    "regex": (Effect("a+", form, "regex"), Refusal(1)),
    "ebnf": (Effect('root ::= "a"', form, "grammar"),),
    "structural_tag": (Effect(_TAG, form, "const_string"),),
    "structured_outputs": (Effect({"regex": "a"}, form, "regex"),),
    "guided_whitespace_pattern": (Refusal(" "),),
    "guided_decoding_backend": (NoEffect("xgrammar"),),
    "modalities": (Refusal(["text", "audio"], "modalities[1]"), NoEffect(["text"])),
    # Without audio output these have no effect.
    "audio": (
        NoEffect({"voice": "alloy", "format": "wav"}),
        Refusal({"format": "x"}, "audio.form"),
    ),
    "chunk_frames": (NoEffect(4), Refusal(0)),
    "return_token_ids": (Refusal(True), NoEffect(False)),
    "return_tokens_as_token_ids": (Refusal(True), NoEffect(False)),
    "continue_final_message": (Refusal(True),),
    "thinking_token_budget": (Refusal(100),),
    "functions": (Refusal([{"name": "f"}]), NoEffect([])),
    "web_search_options": (Refusal({}),),
    # Members of other servers, left out with a warning; the tables have no record to warn.
    **{name: (Refusal("x"),) for name in OF_OTHERS},
    # Before the answer.
    "chat_template": (Refusal("{{ messages }}"),),
    "prompt_logprobs": (Refusal(0), Refusal(1)),
    "truncate_prompt_tokens": (
        Effect(10, attrgetter("truncation"), (10, True)),
        Effect(-1, attrgetter("truncation"), (-1, True)),
        Effect(10, attrgetter("truncation"), (10, False), {"truncation_side": "right"}),
        Refusal(0),
        Refusal(-2),
    ),
    "truncation_side": (NoEffect("left"), Refusal("middle")),
    "prompt_embeds": (Refusal("AAAA"),),
    "mm_processor_kwargs": (Refusal({"a": 1}), NoEffect({})),
    "vllm_xargs": (Refusal({"a": 1}),),
    "suffix": (Refusal("end"), NoEffect("")),
    # Caller, routing and storage.
    "user": (NoEffect("me"),),
    "metadata": (NoEffect({"a": "b"}),),
    "store": (NoEffect(True),),
    "service_tier": (NoEffect("auto"),),
    "safety_identifier": (NoEffect("x"),),
    "prompt_cache_key": (NoEffect("x"),),
    "prompt_cache_retention": (NoEffect("24h"),),
    "cache_salt": (NoEffect("x"),),
    "priority": (NoEffect(1),),
    "request_id": (NoEffect("x"),),
    "kv_transfer_params": (NoEffect({}),),
    "prompt_cache_options": (NoEffect({}),),
    "client_metadata": (NoEffect({"a": "b"}),),
    "moderation": (Refusal({"model": "x"}),),
    "media_io_kwargs": (Refusal({"a": 1}), NoEffect({})),
    "repetition_detection": (Refusal({"a": 1}),),
    # Ends the request; the server reads it.
    "timeout": (NoEffect(3),),
}

#: Members of endpoints with a chat template and tools.
_TEMPLATED: Table = {
    "chat_template_kwargs": (
        Effect({"a": 1}, template("a"), 1),
        Effect({"add_generation_prompt": False}, template("add_generation_prompt"), False),
        Refusal({"messages": []}, "chat_template_kwargs.messages"),
    ),
    "add_generation_prompt": (
        Effect(False, template("add_generation_prompt"), False),
        NoEffect(False, {"chat_template_kwargs": {"add_generation_prompt": True}}),
    ),
    "continue_final_message": (
        Effect(True, attrgetter("template.continues"), True),
        Effect(True, template("add_generation_prompt"), False),
        Refusal(True, beside={"add_generation_prompt": True}),
        Refusal(True, beside={"chat_template_kwargs": {"add_generation_prompt": True}}),
    ),
    "enable_thinking": (Effect(True, template("enable_thinking"), True),),
    "documents": (Effect([{"text": "x"}], template("documents"), [{"text": "x"}]),),
    "top_logprobs": (Refusal(1, beside={"logprobs": True}), NoEffect(0)),
    "logprobs": (Effect(True, setting("logprobs"), True),),
    "tools": (Effect([TOOL], names, ["f"]), Refusal([{"type": "web_search"}], "tools[0].type")),
    "parallel_tool_calls": (Effect(False, attrgetter("parallel_tool_calls"), False),),
}


def choices(named: dict[str, Any]) -> tuple[Effect | Refusal, ...]:
    """Return an outcome for ``tool_choice``; ``named`` chooses the tool f."""
    other = {**TOOL, "function": {"name": "g"}}
    beside = {"tools": [TOOL, other]}
    return (
        Effect("none", names, [], beside),
        Effect("required", attrgetter("tools.choice"), "required", beside),
        Effect(named, names, ["f"], beside),
        Refusal("required"),
        Refusal(named, beside={"tools": [other]}),
    )


CHAT: Table = {
    **COMMON,
    **_TEMPLATED,
    "messages": (
        Effect([{"role": "user", "content": "you"}], lambda r: r.messages[0]["content"], "you"),
        Refusal([]),
    ),
    "stream_options": (
        Effect({"include_usage": True}, attrgetter("include_usage"), True, _STREAM),
        NoEffect({"include_obfuscation": True}, _STREAM),
        NoEffect({"continuous_usage_stats": True}, _STREAM),
        Effect(
            {"include_usage": True, "continuous_usage_stats": True},
            attrgetter("has_running_usage"),
            True,
            _STREAM,
        ),
        Refusal({"include_usag": True}, "stream_options.include_usag", _STREAM),
    ),
    "return_token_ids": (Effect(True, attrgetter("returns_token_ids"), True),),
    "max_tokens": (Effect(5, setting("max_new_tokens"), 5),),
    "max_completion_tokens": (Effect(5, setting("max_new_tokens"), 5, {"max_tokens": 9}),),
    "n": (Effect(3, attrgetter("n"), 3),),
    "tool_choice": choices({"type": "function", "function": {"name": "f"}}),
    "functions": (
        Effect([FUNCTION], names, ["f"]),
        Effect([FUNCTION], attrgetter("has_functions"), True),
        Refusal([FUNCTION], "tools", {"tools": [TOOL]}),
        NoEffect([]),
    ),
    "function_call": (
        Effect({"name": "f"}, attrgetter("tools.choice"), "named", {"functions": [FUNCTION]}),
        Effect("none", names, [], {"functions": [FUNCTION]}),
        Refusal({"name": "f"}, "function_call.name"),
        Refusal("required", beside={"functions": [FUNCTION]}),
        NoEffect("auto"),
        NoEffect("none"),
    ),
    "reasoning_effort": (
        Effect("low", template("reasoning_effort"), "low"),
        Effect("low", template("enable_thinking"), True),
    ),
    "verbosity": (Effect("low", template("verbosity"), "low"), Refusal("loud")),
    # Affects when an answer arrives, not its content.
    "prediction": (NoEffect({"type": "content", "content": "x"}),),
    "echo": (Refusal(True), NoEffect(False)),
    "add_special_tokens": (Refusal(True), NoEffect(False)),
    "include_reasoning": (Effect(False, attrgetter("shows_thinking"), False), NoEffect(True)),
    "thinking": (
        Effect({"type": "disabled"}, template("enable_thinking"), False),
        Effect({"type": "enabled"}, template("thinking"), True),
        NoEffect({"type": "auto"}),
    ),
    "reasoning": (
        Effect({"effort": "max"}, template("reasoning_effort"), "max"),
        Effect({"enabled": False}, template("enable_thinking"), False),
        Effect({"exclude": True}, attrgetter("shows_thinking"), False),
    ),
}

COMPLETIONS: Table = {
    **COMMON,
    "prompt": (
        Effect("you", attrgetter("prompts"), ("you",)),
        Effect(["a", "b"], attrgetter("prompts"), ("a", "b")),
        Effect([1, 2], attrgetter("prompts"), ((1, 2),)),
        Effect([[1], [2]], attrgetter("prompts"), ((1,), (2,))),
    ),
    "stream_options": CHAT["stream_options"],
    "return_token_ids": CHAT["return_token_ids"],
    "max_tokens": (
        Effect(5, setting("max_new_tokens"), 5),
        Effect(0, setting("max_new_tokens"), 0, {"echo": True}),
    ),
    "n": CHAT["n"],
    "echo": (Effect(True, setting("echo"), True),),
    "suffix": (
        Effect("end", attrgetter("infill"), ("end", (), "", False, "")),
        NoEffect(""),
        Refusal(1),
    ),
    "logprobs": (Effect(1, setting("logprobs"), True), Refusal(2)),
    "add_special_tokens": (Effect(False, attrgetter("add_special_tokens"), False),),
}

RESPONSES: Table = {
    **COMMON,
    **_TEMPLATED,
    "input": (
        Effect("you", lambda r: r.messages[-1]["content"], "you"),
        Refusal([]),
    ),
    "instructions": (Effect("Be kind", lambda r: r.messages[0]["content"], "Be kind"),),
    "stream_options": (
        NoEffect({"include_obfuscation": False}, _STREAM),
        NoEffect({"include_usage": True}, _STREAM),
        Refusal({"include_usage": 1}, "stream_options.include_usage", _STREAM),
        Refusal({"continuous_usage_stats": True}, "stream_options.continuous_usage_stats", _STREAM),
    ),
    "max_output_tokens": (Effect(5, setting("max_new_tokens"), 5),),
    # Not a member of responses: OpenVINO Model Server does not read it.
    "max_tokens": (Refusal(5),),
    "ignore_eos": (Effect(True, setting("ignore_eos"), True, {"max_output_tokens": 5}),),
    "context_management": (NoEffect([{"type": "compaction"}]),),
    "n": (Refusal(2), NoEffect(1)),
    "tools": (
        Effect([FLAT_TOOL], names, ["f"]),
        Effect([TOOL], names, ["f"]),
        Refusal([{"type": "web_search"}], "tools[0].type"),
    ),
    "tool_choice": choices({"type": "function", "name": "f"}),
    "reasoning_effort": CHAT["reasoning_effort"],
    "verbosity": CHAT["verbosity"],
    "reasoning": (
        Effect({"effort": "low"}, template("reasoning_effort"), "low"),
        Effect({"effort": "low"}, template("enable_thinking"), True),
        NoEffect({"summary": "auto"}),
    ),
    "text": (
        Effect(
            {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}, form, "json_schema"
        ),
        Effect({"verbosity": "low"}, template("verbosity"), "low"),
        Refusal({"verbosity": "loud"}, "text.verbosity"),
    ),
    "include": (
        Effect(["message.output_text.logprobs"], setting("logprobs"), True),
        NoEffect(["reasoning.encrypted_content"]),
    ),
    "previous_response_id": (Refusal("resp_1"),),
    "conversation": (Refusal("conv_1"),),
    "prompt": (Refusal({"id": "p"}),),
    "background": (Refusal(True), NoEffect(False)),
    # A prompt that is too long is refused either way.
    "truncation": (NoEffect("auto"), Refusal("left")),
    # A model calls no tools of the server; a tools node reads it from the neutral request.
    "max_tool_calls": (NoEffect(3),),
}
