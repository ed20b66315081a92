"""Members about sampling and length, resolved to the settings of the engine."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.members import Member, Members, honoured, table
from calculators.kit.requests.readers import BOOLEAN, COUNT, Integer, Number
from calculators.kit.requests.schema import const, one_of, record
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.requests.assisted_decoding import (
    ASSISTED_MEMBERS,
    NOTHING_PROPOSED,
    read_assisted_decoding,
    refuse_unassisted,
)
from calculators.llm.requests.choices import CHOICE_MEMBERS, ONE_CHOICE, most_unasked, read_choices
from calculators.llm.requests.logprobs import LOGPROBS_NAMES, read_logprobs
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.stop_conditions import (
    STOP_NAMES,
    read_stop_strings,
    read_stop_token_ids,
)

#: The ``top_k`` of a request without one, if the model has no default.
DEFAULT_TOP_K: Final = 40

SAMPLING_MEMBERS: Final[Members] = table(
    honoured("temperature", Number(minimum=0, maximum=2), "0 always takes the likeliest token."),
    honoured("top_p", Number(minimum=0, maximum=1), "Only the likeliest tokens, up to this sum."),
    honoured(
        "top_k",
        Integer(minimum=-1, maximum=INT32_MAX),
        "Only so many of the likeliest tokens; 0 and -1 are all.",
    ),
    honoured(
        "min_p",
        Number(minimum=0, below=1),
        "Only tokens this likely, compared with the likeliest.",
    ),
    honoured(
        "seed", Integer(minimum=-(2**63), maximum=2**64 - 1), "The same seed, the same answer."
    ),
    honoured("frequency_penalty", Number(minimum=-2, maximum=2)),
    honoured("presence_penalty", Number(minimum=-2, maximum=2)),
    honoured("repetition_penalty", Number(above=0)),
    honoured("length_penalty", Number(), "Of beam search."),
    honoured("min_tokens", COUNT),
    honoured("skip_special_tokens", BOOLEAN, "False shows the text of special tokens."),
)


def max_tokens_member(
    name: str = "max_tokens",
    about: str = "How many tokens the answer may have.",
    *,
    least: int = 1,
    is_required: bool = False,
) -> Member:
    """Declare the limit of an answer's tokens, under the name that the endpoint has for it."""
    # `read_sampling` refuses 0, with a hint.
    echoes = one_of(
        record({name: {"not": {"const": 0}}}),
        record({"echo": const(True)}, required=("echo",)),
    )
    beside = {} if least else echoes
    return honoured(name, COUNT, about, minimum=least, is_required=is_required, beside=beside)


#: The members that limit the tokens of an answer. A checked body has only the names that its
#: endpoint knows; of several, the last one counts.
_MAX_TOKENS_NAMES: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
MAX_TOKENS_NAMES: Final = frozenset(_MAX_TOKENS_NAMES)


def read_sampling(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
    *,
    needs_max_tokens: bool = False,
    may_echo: bool = False,
) -> GenerationSettings:
    """Resolve a checked body: its values, else the model's defaults, else the built-in ones.

    A temperature above 0 (default 1) samples, with a fresh seed unless the request has one; 0 and
    beam search do not sample. The engine accepts every result except one whose ``max_new_tokens``
    is None, which `fit_to_model` sets. Source: OpenVINO Model Server
    ``llm/io_processing/base_generation_config_builder.cpp``, and the checks of openvino-genai's
    ``GenerationConfig::validate``.

    ``num_return_sequences`` is 1 if several answers would be equal because nothing is sampled; the
    caller copies the answer.

    Args:
        needs_max_tokens: the endpoint requires ``max_tokens``. Then a number above the operator's
            limit stands for that limit, because it may be a default of the client's library.
        may_echo: the endpoint has ``echo``, with which the answer may have 0 new tokens.

    Raises:
        RequestError: with the field at fault as its param.
    """
    choices = ONE_CHOICE
    if not CHOICE_MEMBERS.keys().isdisjoint(body):
        choices = read_choices(body, limits)
    echo: bool = body.get("echo", False)
    max_new_tokens = _read_max_new_tokens(
        body, limits, echo=echo, may_echo=may_echo, may_be_less=needs_max_tokens
    )
    if max_new_tokens is None:
        if needs_max_tokens:
            raise fields.missing("max_tokens", "how many tokens the answer may have")
        default = limits.max_tokens_limit
        max_new_tokens = defaults.max_new_tokens if default is None else default
        if max_new_tokens is not None:
            max_new_tokens = most_unasked(max_new_tokens, n=choices.n, beams=choices.beams)
    min_new_tokens = _read_min_new_tokens(body, defaults, max_new_tokens)
    if limits.decoding_mode != "standard" and not body.get("min_tokens"):
        min_new_tokens = 0  # a default of the model, which the library would ignore
    ignore_eos = _read_ignore_eos(body, defaults, limits, max_new_tokens)
    if choices.beams > 1:
        _check_penalties(body, defaults, choices.beams)
    temperature = body.get("temperature", defaults.temperature)
    if temperature is None:
        temperature = 1.0
    top_p = body.get("top_p", defaults.top_p)
    mode = limits.decoding_mode
    assisted = NOTHING_PROPOSED
    if mode != "standard" or not ASSISTED_MEMBERS.keys().isdisjoint(body):
        assisted = read_assisted_decoding(body, mode)

    do_sample = temperature > 0 and choices.beams == 1
    if mode != "standard":
        refuse_unassisted(mode, assisted, min_tokens=body.get("min_tokens"), do_sample=do_sample)
    if do_sample and top_p == 0:
        raise fields.invalid(
            "top_p", "0 leaves no token to sample; use temperature 0 or a larger one"
        )
    return GenerationSettings(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        ignore_eos=ignore_eos,
        stop_strings=defaults.stop_strings
        if STOP_NAMES.isdisjoint(body)
        else read_stop_strings(body, defaults, limits),
        stop_token_ids=read_stop_token_ids(body, defaults, limits)
        if "stop_token_ids" in body
        else None,
        do_sample=do_sample,
        temperature=temperature if do_sample else None,
        top_p=top_p if do_sample else None,
        top_k=_top_k(body, defaults) if do_sample else None,
        min_p=body.get("min_p", defaults.min_p) if do_sample else None,
        rng_seed=_seed(body) if do_sample else None,
        repetition_penalty=body.get("repetition_penalty", defaults.repetition_penalty),
        frequency_penalty=body.get("frequency_penalty", defaults.frequency_penalty),
        presence_penalty=body.get("presence_penalty", defaults.presence_penalty),
        length_penalty=body.get("length_penalty", defaults.length_penalty),
        num_beams=choices.beams,
        num_return_sequences=choices.n if do_sample or choices.beams > 1 else 1,
        logprobs=not LOGPROBS_NAMES.isdisjoint(body) and read_logprobs(body, limits),
        echo=echo,
        num_assistant_tokens=assisted.num_assistant_tokens,
        assistant_confidence_threshold=assisted.assistant_confidence_threshold,
        max_ngram_size=assisted.max_ngram_size,
    )


def _seed(body: Mapping[str, Any]) -> int:
    seed: int | None = body.get("seed")
    # The engine takes 32 bits; clients send 64, and -1.
    return secrets.randbelow(fields.UINT32_MAX) + 1 if seed is None else seed % 2**32


def _read_max_new_tokens(
    body: Mapping[str, Any],
    limits: RequestLimits,
    *,
    echo: bool,
    may_echo: bool,
    may_be_less: bool,
) -> int | None:
    limit = limits.max_tokens_limit
    value = None
    for name in _MAX_TOKENS_NAMES:
        asked = body.get(name)
        if asked is not None and limit is not None and asked > limit:
            if not may_be_less:
                raise fields.above(name, asked, limit)
            asked = limit
        if asked == 0 and not echo:
            hint = " unless echo is set" if may_echo else ""
            raise fields.invalid(name, f"0 is below the minimum 1{hint}")
        value = value if asked is None else asked
    return value


def _read_min_new_tokens(
    body: Mapping[str, Any], defaults: ModelDefaults, max_new_tokens: int | None
) -> int:
    asked: int | None = body.get("min_tokens")
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
    asked: bool | None = body.get("ignore_eos")
    if asked and max_new_tokens is None and limits.max_model_length is None:
        raise fields.invalid("ignore_eos", "true needs max_tokens: this answer would never end")
    # The default of the model counts only if something else ends its answers.
    ends = max_new_tokens is not None or limits.max_model_length is not None
    return bool(defaults.ignore_eos and ends) if asked is None else asked


def _check_penalties(body: Mapping[str, Any], defaults: ModelDefaults, beams: int) -> None:
    """Refuse penalties for repetition, frequency and presence: beam search has none."""
    for name, neutral in _NEUTRAL_PENALTIES.items():
        value = body.get(name, getattr(defaults, name))
        if value is not None and value != neutral:
            whose = "" if name in body else " (from the model's generation_config.json)"
            raise fields.invalid(
                name, f"{value}{whose} cannot be combined with best_of {beams}; use {neutral:g}"
            )


_NEUTRAL_PENALTIES: Final = {
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}


def _top_k(body: Mapping[str, Any], defaults: ModelDefaults) -> int | None:
    """Return the limit; None is no limit."""
    asked: int | None = body.get("top_k")
    if asked is not None:
        return None if asked in (-1, 0) else asked
    if defaults.top_k is None:
        return DEFAULT_TOP_K
    return defaults.top_k or None
