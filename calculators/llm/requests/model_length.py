"""The length of a model in tokens, and the room that a prompt leaves for an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.choices import most_unasked
from calculators.requests.http_payload import RequestError
from graph_runtime import Code
from graph_runtime.regular_file import MODEL_FILE_BYTES, read_regular_file

#: OpenAI's code for a prompt that does not fit. Programs that shorten prompts look for it.
TOO_LONG: Final = "context_length_exceeded"

#: The members of ``config.json`` that may have it; the first unsigned integer counts.
_NAMES: Final = (
    "max_position_embeddings",
    "n_positions",
    "seq_len",
    "seq_length",
    "n_ctx",
    "sliding_window",
)
#: The members with the text model's configuration in a model of text and images.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")


def model_length(config: dict[str, Any]) -> int | None:
    """Return the most tokens of prompt and answer together, by a parsed ``config.json``.

    None if it has no such number. Source: OpenVINO Model Server ``llm/servable_initializer.cpp``,
    which ignores the text part of models that read images.
    """
    texts = (config.get(name) for name in _TEXT_PARTS)
    for part in (config, *(text for text in texts if isinstance(text, dict))):
        for name in _NAMES:
            value = part.get(name)
            if type(value) is int and 0 <= value < 2**32:
                return value
    return None


def read_model_length(directory: Path) -> int | None:
    """Return the `model_length` of a directory; None also if its file cannot be read."""
    try:
        config = json.loads(read_regular_file(directory / "config.json", MODEL_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return model_length(config) if isinstance(config, dict) else None


def fit_to_model(
    settings: GenerationSettings,
    prompt_tokens: int,
    length: int | None,
    *,
    param: str,
    has_images: bool = False,
    may_be_less: bool = False,
) -> GenerationSettings:
    """Check that prompt and answer fit a model of ``length`` tokens; None is no limit.

    A request without a limit gets the remaining length, or its answers' share of what several may
    have (`most_unasked`). With images, ``prompt_tokens`` counts only the text, and the engine
    checks the length again.

    Args:
        may_be_less: the limit is not the client's own choice: where the model has less room left,
            that is the limit.

    Raises:
        RequestError: OUT_OF_RANGE, with the reason `TOO_LONG`; ``param`` is the member with the
            prompt.
    """
    asked = settings.max_new_tokens
    share = None
    if asked is None:
        share = most_unasked(None, n=settings.num_return_sequences, beams=settings.num_beams)
    if length is None:
        return settings if share is None else _limited(settings, share)
    room = length - prompt_tokens
    if asked is not None and may_be_less and 0 < room < asked:
        settings, asked = _limited(settings, room), room
    if room < (1 if asked is None else asked):
        answer = "" if not asked else f" and {asked} tokens of answer"
        raise RequestError(
            f"The model holds {length} tokens; the request has {prompt_tokens} tokens of prompt"
            f"{answer}",
            param=param,
            code=Code.OUT_OF_RANGE,
            reason=TOO_LONG,
        )
    if has_images:
        settings = settings if share is None else _limited(settings, share)
        return replace(settings, max_length=length)
    if asked is not None:
        return settings
    return _limited(settings, room if share is None else min(room, share))


def _limited(settings: GenerationSettings, most: int) -> GenerationSettings:
    """Limit the length of an answer that the client did not limit.

    A minimum above it, which the library refuses, ends there too: the model holds no more.
    """
    least = min(settings.min_new_tokens, most)
    return replace(settings, max_new_tokens=most, min_new_tokens=least)
