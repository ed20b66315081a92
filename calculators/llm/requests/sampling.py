"""How the tokens of an answer are chosen: the request's fields, resolved for the engine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.assisted_decoding import read_assisted_decoding, refuse_unassisted
from calculators.llm.requests.choices import most_unasked, read_choices
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.stop_conditions import read_stop_strings, read_stop_token_ids
from calculators.requests import fields

#: Where neither the request nor the model limits the tokens that a sample is taken from.
DEFAULT_TOP_K: Final = 40

#: What the most tokens of an answer are called; the last one that is there counts.
_MAX_TOKENS_NAMES: Final = {
    Endpoint.CHAT_COMPLETIONS: ("max_tokens", "max_completion_tokens"),
    Endpoint.RESPONSES: ("max_output_tokens",),
}
_STOP_NAMES: Final = {Endpoint.MESSAGES: "stop_sequences"}

#: What asks for log-probabilities in ``include`` of a responses request.
_INCLUDED_LOGPROBS: Final = "message.output_text.logprobs"


def read_sampling(
    body: Mapping[str, Any],
    endpoint: Endpoint,
    defaults: ModelDefaults,
    limits: RequestLimits,
) -> GenerationSettings:
    """Resolve the request over the model's defaults over the built-in ones.

    A temperature above 0 (1 unless request or model say otherwise) samples, with a fresh seed
    unless the request has one; 0 and beam search do not. The engine accepts every result, but one
    where ``max_new_tokens`` is None: `fit_to_model` knows the room. Source: OpenVINO Model Server
    ``llm/io_processing/base_generation_config_builder.cpp``, and the checks of openvino-genai's
    ``GenerationConfig::validate``.

    ``num_return_sequences`` is 1 where several answers would be equal, that is when nothing is
    sampled; the caller copies the one.

    Raises:
        RequestError: with the field at fault as its param.
    """
    choices = read_choices(body, limits)
    echo = endpoint is Endpoint.COMPLETIONS and bool(fields.boolean(body, "echo"))
    max_new_tokens = _read_max_new_tokens(body, endpoint, limits, echo=echo)
    if max_new_tokens is None:
        default = limits.max_tokens_limit
        max_new_tokens = defaults.max_new_tokens if default is None else default
        if max_new_tokens is not None:
            max_new_tokens = most_unasked(max_new_tokens, n=choices.n, beams=choices.beams)
    min_new_tokens = _read_min_new_tokens(body, defaults, max_new_tokens)
    if limits.decoding_mode != "standard" and not body.get("min_tokens"):
        min_new_tokens = 0  # the model's own default; the library would not keep to it
    ignore_eos = _read_ignore_eos(body, defaults, limits, max_new_tokens)
    repetition, frequency, presence = _read_penalties(body, defaults, beams=choices.beams)
    length_penalty = _first(fields.number(body, "length_penalty"), defaults.length_penalty)
    # Everything is read, and so checked, also where it does not apply.
    temperature = _first(
        fields.number(body, "temperature", minimum=0, maximum=2), defaults.temperature, 1.0
    )
    top_p = _first(fields.number(body, "top_p", minimum=0, maximum=1), defaults.top_p)
    min_p = _first(fields.number(body, "min_p", minimum=0, below=1), defaults.min_p)
    top_k = _read_top_k(body, defaults)
    seed = fields.integer(body, "seed")
    mode = limits.decoding_mode
    assisted = read_assisted_decoding(body, mode)

    do_sample = temperature is not None and temperature > 0 and choices.beams == 1
    refuse_unassisted(
        mode,
        assisted,
        min_tokens=fields.integer(body, "min_tokens"),
        do_sample=do_sample,
    )
    if do_sample and top_p == 0:
        raise fields.invalid(
            "top_p", "0 leaves no token to sample; use temperature 0 or a larger one"
        )
    return GenerationSettings(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        ignore_eos=ignore_eos,
        stop_strings=read_stop_strings(
            body, defaults, limits, name=_STOP_NAMES.get(endpoint, "stop")
        ),
        stop_token_ids=read_stop_token_ids(body, defaults, limits),
        do_sample=do_sample,
        temperature=temperature if do_sample else None,
        top_p=top_p if do_sample else None,
        top_k=top_k if do_sample else None,
        min_p=min_p if do_sample else None,
        rng_seed=(_fresh_seed() if seed is None else seed) if do_sample else None,
        repetition_penalty=repetition,
        frequency_penalty=frequency,
        presence_penalty=presence,
        length_penalty=length_penalty,
        num_beams=choices.beams,
        num_return_sequences=choices.n if do_sample or choices.beams > 1 else 1,
        logprobs=_read_wants_logprobs(body, endpoint, limits),
        echo=echo,
        **assisted._asdict(),
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _fresh_seed() -> int:
    return secrets.randbelow(fields.UINT32_MAX) + 1


def _read_max_new_tokens(
    body: Mapping[str, Any],
    endpoint: Endpoint,
    limits: RequestLimits,
    *,
    echo: bool,
) -> int | None:
    limit = limits.max_tokens_limit
    value = None
    for name in _MAX_TOKENS_NAMES.get(endpoint, ("max_tokens",)):
        asked = fields.integer(body, name, maximum=fields.UINT32_MAX if limit is None else limit)
        if asked == 0 and not echo:
            hint = " unless echo is set" if endpoint is Endpoint.COMPLETIONS else ""
            raise fields.invalid(name, f"0 is below the minimum 1{hint}")
        value = value if asked is None else asked
    if value is None and endpoint is Endpoint.MESSAGES:
        raise fields.missing("max_tokens", "how many tokens the answer may have")
    return value


def _read_min_new_tokens(
    body: Mapping[str, Any], defaults: ModelDefaults, max_new_tokens: int | None
) -> int:
    asked = fields.integer(body, "min_tokens")
    most = fields.UINT32_MAX if max_new_tokens is None else max_new_tokens
    if asked is None:
        return min(defaults.min_new_tokens or 0, most)
    if asked > most:
        raise fields.invalid("min_tokens", f"{asked} is above the maximum of new tokens, {most}")
    return asked


def _read_ignore_eos(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
    max_new_tokens: int | None,
) -> bool:
    asked = fields.boolean(body, "ignore_eos")
    if asked and max_new_tokens is None and limits.max_model_length is None:
        raise fields.invalid("ignore_eos", "true needs max_tokens: this answer would never end")
    # A model that says so itself is heard only where its answers end some other way.
    ends = max_new_tokens is not None or limits.max_model_length is not None
    return bool(defaults.ignore_eos and ends) if asked is None else asked


def _read_penalties(
    body: Mapping[str, Any], defaults: ModelDefaults, *, beams: int
) -> tuple[float | None, float | None, float | None]:
    """For repetition, frequency and presence. Beam search has none."""
    repetition = fields.number(body, "repetition_penalty", above=0)
    frequency = fields.number(body, "frequency_penalty", minimum=-2, maximum=2)
    presence = fields.number(body, "presence_penalty", minimum=-2, maximum=2)
    for name, neutral, asked in (
        ("repetition_penalty", 1.0, repetition),
        ("frequency_penalty", 0.0, frequency),
        ("presence_penalty", 0.0, presence),
    ):
        value = _first(asked, getattr(defaults, name), neutral)
        if beams > 1 and value != neutral:
            whose = "" if asked is not None else " (from the model's generation_config.json)"
            raise fields.invalid(
                name, f"{value}{whose} cannot be combined with best_of {beams}; use {neutral:g}"
            )
    return (
        _first(repetition, defaults.repetition_penalty),
        _first(frequency, defaults.frequency_penalty),
        _first(presence, defaults.presence_penalty),
    )


def _read_top_k(body: Mapping[str, Any], defaults: ModelDefaults) -> int | None:
    """None is no limit."""
    asked = fields.integer(body, "top_k", minimum=-1, maximum=fields.INT32_MAX)
    if asked == 0:
        raise fields.invalid("top_k", "0 is neither positive nor -1, which is all tokens")
    if asked is not None:
        return None if asked == -1 else asked
    if defaults.top_k is None:
        return DEFAULT_TOP_K
    return defaults.top_k or None


def _read_wants_logprobs(
    body: Mapping[str, Any], endpoint: Endpoint, limits: RequestLimits
) -> bool:
    wanted = _asks_for_logprobs(body, endpoint)
    if wanted and not limits.has_logprobs:
        raise fields.invalid(
            "logprobs" if body.get("logprobs") is not None else "include",
            "this model is served one request at a time (pipeline_type LM or VLM), where "
            "log-probabilities are not known; leave it out",
        )
    return wanted


def _asks_for_logprobs(body: Mapping[str, Any], endpoint: Endpoint) -> bool:
    match endpoint:
        case Endpoint.CHAT_COMPLETIONS:
            return read_chat_logprobs(body)
        case Endpoint.COMPLETIONS:
            return read_completion_logprobs(body) is not None
        case Endpoint.RESPONSES:
            return read_responses_logprobs(body)
        case _:
            return False


def read_chat_logprobs(body: Mapping[str, Any]) -> bool:
    """``logprobs`` of a chat request. The engine reports the chosen token's and no others."""
    wanted = bool(fields.boolean(body, "logprobs"))
    top = fields.integer(body, "top_logprobs", maximum=20)
    if top and not wanted:
        raise fields.invalid("top_logprobs", f"{top} needs logprobs to be true")
    if top:
        raise fields.invalid(
            "top_logprobs", f"{top} is not supported: only the chosen token's is known; use 0"
        )
    return wanted


def read_responses_logprobs(body: Mapping[str, Any]) -> bool:
    """Does ``include``, or ``logprobs`` as in a chat request, ask for log-probabilities?"""
    included = fields.array(body, "include") or []
    for i, name in enumerate(included):
        if not isinstance(name, str):
            raise fields.wrong_type(f"include[{i}]", "a string", name)
    if _INCLUDED_LOGPROBS in included:
        body = {**body, "logprobs": True}
    return read_chat_logprobs(body)


def read_completion_logprobs(body: Mapping[str, Any]) -> int | None:
    """``logprobs`` of a completion request: None, 0 or 1; 1 repeats the chosen token as the top."""
    return fields.integer(body, "logprobs", maximum=1)
