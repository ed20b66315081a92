"""The room that a prompt leaves for an answer in the length of a model."""

from __future__ import annotations

from msgspec.structs import replace

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import TOO_LONG
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.choices import most_unasked
from graph_runtime import Code


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
        if share is not None:
            settings = _limited(settings, min(room, share))
        is_shortened = may_be_less or share is not None
        return replace(settings, max_length=length, is_shortened=is_shortened)
    if asked is not None:
        return settings
    return _limited(settings, room if share is None else min(room, share))


def _limited(settings: GenerationSettings, most: int) -> GenerationSettings:
    """Limit the length of an answer that the client did not limit.

    A minimum above it, which the library refuses, ends there too: the model holds no more.
    """
    least = min(settings.min_new_tokens, most)
    return replace(settings, max_new_tokens=most, min_new_tokens=least)
