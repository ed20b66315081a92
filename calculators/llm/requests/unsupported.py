"""Values that would change the answer and cannot be honoured: refused, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calculators.llm.requests.endpoint import Endpoint
from calculators.requests import fields


def refuse_unsupported(body: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Refuse values of known members that ask for what is not there, or are of the wrong type."""
    if endpoint is Endpoint.CHAT_COMPLETIONS:
        _check_function_call(body)
        if fields.boolean(body, "include_reasoning") is False:
            raise fields.invalid("include_reasoning", "reasoning that was made is always shown")
    # Without effect, but a caller who sends another type has made a mistake.
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
