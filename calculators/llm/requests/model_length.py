"""How many tokens a model can hold, and what that leaves for an answer."""

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

#: OpenAI's word for a prompt that does not fit; programs that shorten it look for it.
TOO_LONG: Final = "context_length_exceeded"

#: The members of ``config.json`` that may say it; the first that is an unsigned integer does.
_NAMES: Final = (
    "max_position_embeddings",
    "n_positions",
    "seq_len",
    "seq_length",
    "n_ctx",
    "sliding_window",
)
#: Where models of text and images have what is about text.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")


def model_length(config: dict[str, Any]) -> int | None:
    """Tokens of prompt and answer together, from a parsed ``config.json``; None: it does not say.

    Source: OpenVINO Model Server ``llm/servable_initializer.cpp``, which does not look into the
    part on text of models that see.
    """
    texts = (config.get(name) for name in _TEXT_PARTS)
    for part in (config, *(text for text in texts if isinstance(text, dict))):
        for name in _NAMES:
            value = part.get(name)
            if type(value) is int and 0 <= value < 2**32:
                return value
    return None


def read_model_length(directory: Path) -> int | None:
    """`model_length` of a model directory; None too when the file is not there or not readable."""
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
) -> GenerationSettings:
    """Check that prompt and answer fit a model of ``length`` tokens; None is no limit.

    A request that names no number of tokens gets what is left, or its answers' share of what
    several may have (`most_unasked`). With images the engine counts once more: ``prompt_tokens``
    are those of the text then.

    Raises:
        RequestError: OUT_OF_RANGE, with the reason `TOO_LONG`; ``param`` is where the
            prompt came from.
    """
    asked = settings.max_new_tokens
    share = None
    if asked is None:
        share = most_unasked(None, n=settings.num_return_sequences, beams=settings.num_beams)
    if length is None:
        return settings if share is None else replace(settings, max_new_tokens=share)
    room = length - prompt_tokens
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
        most = share if asked is None else asked
        return replace(settings, max_new_tokens=most, max_length=length)
    if asked is not None:
        return settings
    return replace(settings, max_new_tokens=room if share is None else min(room, share))
