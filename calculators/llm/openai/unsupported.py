"""Members that would change the answer and cannot be honoured: refused, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.openai import fields

#: Member to what to say about it. A value that asks for nothing (null, false, empty) passes; an
#: empty object is a schema, which asks for something.
_REFUSED: Final = {
    "functions": "is not supported; use tools",
    "prompt_embeds": "is not supported: prompts are text or token ids",
    "prompt_logprobs": "is not supported; completions with echo and logprobs give them",
    "chat_template": "is not accepted from a request: the model's own template is used",
    "suffix": "is not supported",
    "bad_words": "is not supported",
    "allowed_token_ids": "is not supported",
    "use_beam_search": "is not supported; use best_of",
}


def refuse_unsupported(body: Mapping[str, Any]) -> None:
    """Refuse what is asked for and not there, and what is ignored but of the wrong type."""
    for name, why in _REFUSED.items():
        if body.get(name) not in (None, False, "", []):
            raise fields.invalid(name, f"the member {why}")
    if fields.json_object(body, "logit_bias"):
        raise fields.invalid("logit_bias", "the member is not supported by this engine")
    # Ignored, but a caller who sends another type has made a mistake.
    fields.string(body, "user")
    _check_audio_output(body)


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
