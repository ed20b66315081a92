"""Members that would change the answer and cannot be honoured: refused, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.openai import fields
from calculators.llm.openai.endpoint import Endpoint

#: Member to what to say about it. A value that asks for nothing (null, false, empty) passes; 0 and
#: an empty object ask for something: for all the log-probabilities but the top ones, or for search.
REFUSED: Final = {
    "functions": "is not supported; use tools",
    "prompt_embeds": "is not supported: prompts are text or token ids",
    "prompt_logprobs": "is not supported; completions with echo and logprobs give them",
    "truncate_prompt_tokens": "is not supported: a prompt is taken whole or refused",
    "chat_template": "is not accepted from a request: the model's own template is used",
    "continue_final_message": "is not supported; continue a text with /completions",
    "suffix": "is not supported",
    "bad_words": "is not supported",
    "allowed_token_ids": "is not supported",
    "logits_processors": "is not accepted from a request",
    "use_beam_search": "is not supported; use best_of",
    "thinking_token_budget": "is not supported; use reasoning_effort",
    "return_token_ids": "is not supported; use /tokenize",
    "return_tokens_as_token_ids": "is not supported",
    "web_search_options": "is not supported: this server searches nothing",
}
#: The same, where an empty object asks for nothing.
REFUSED_OBJECTS: Final = {
    "logit_bias": "is not supported by this engine",
    "mm_processor_kwargs": "is not supported",
    "vllm_xargs": "is not supported",
}
#: Of chat requests only: they mean something else for completions, or nothing at all.
REFUSED_IN_CHATS: Final = {
    "echo": "is for /completions",
    "add_special_tokens": "is not supported: the chat template writes those that are needed",
}


def refuse_unsupported(body: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Refuse what is asked for and not there, and what is ignored but of the wrong type."""
    refused = dict(REFUSED)
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        refused |= REFUSED_IN_CHATS
        _check_function_call(body)
        if fields.boolean(body, "include_reasoning") is False:
            raise fields.invalid("include_reasoning", "reasoning that was made is always shown")
    for name, why in refused.items():
        value = body.get(name)
        if value is not None and value is not False and value not in ("", []):
            raise fields.invalid(name, f"the member {why}")
    for name, why in REFUSED_OBJECTS.items():
        if fields.json_object(body, name):
            raise fields.invalid(name, f"the member {why}")
    # Ignored, but a caller who sends another type has made a mistake.
    fields.string(body, "user")
    _check_audio_output(body)


def _check_function_call(body: Mapping[str, Any]) -> None:
    """What came before ``tool_choice``. There are no functions, so these two change nothing."""
    if body.get("function_call") not in (None, "none", "auto"):
        raise fields.invalid("function_call", "the member is not supported; use tool_choice")


def _check_audio_output(body: Mapping[str, Any]) -> None:
    for i, modality in enumerate(fields.array(body, "modalities") or ()):
        if not isinstance(modality, str):
            raise fields.wrong_type(f"modalities[{i}]", "a string", modality)
        if modality == "audio":
            raise fields.invalid(f"modalities[{i}]", "this model does not answer with audio")
    audio = fields.json_object(body, "audio") or {}
    audio_format = audio.get("format")
    if isinstance(audio_format, str) and audio_format not in ("wav", "pcm16"):
        raise fields.invalid(
            "audio.format", f'{fields.describe(audio_format)} is neither "wav" nor "pcm16"'
        )
    fields.integer(body, "chunk_frames", minimum=1)
