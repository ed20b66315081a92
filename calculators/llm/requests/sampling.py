"""Members about sampling, length and end of an answer, resolved to the settings of the engine.

Each group of members stands with its reader: log-probabilities, stop strings and tokens, the number
of answers, assisted decoding, and sampling itself. `read_sampling` resolves a whole body: its
values, else the defaults of the model, else the built-in ones. When the prompt's length is known,
`fit_to_model` limits the answer to the room that is left.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from calculators.kit.requests import fields
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    COUNT,
    POSITIVE,
    TOKEN_ID,
    Array,
    Integer,
    Member,
    Members,
    Number,
    Value,
    honoured,
    leave_out_value,
    table,
)
from calculators.kit.requests.schema import array, const, one_of, record, string, values
from calculators.llm.engine.engine import TOO_LONG
from calculators.llm.engine.settings import MAX_ASSISTANT_TOKENS, DecodingMode, GenerationSettings
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from graph_runtime import Code

#: The item of ``include`` in a responses request that asks for log-probabilities.
_INCLUDED_LOGPROBS: Final = "message.output_text.logprobs"
#: The item that asks for reasoning as an opaque text.
SEALED_REASONING: Final = "reasoning.encrypted_content"
#: All items of OpenAI's ``include``. The others are about items that no answer has here.
INCLUDES: Final = (
    _INCLUDED_LOGPROBS,
    SEALED_REASONING,
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
_NOT_INCLUDED: Final = "is none of " + ", ".join(f'"{each}"' for each in INCLUDES)

CHAT_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured("logprobs", BOOLEAN, "Each token comes with its log-probability."),
    honoured("top_logprobs", Integer(maximum=20), "Only the chosen token's is known.", maximum=0),
)
COMPLETION_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured(
        "logprobs",
        Integer(maximum=1),
        "0: with the log-probability of each token; 1 repeats it under `top_logprobs`.",
    ),
)
#: The members that `read_logprobs` reads; without them there are none.
LOGPROBS_NAMES: Final = frozenset({"logprobs", "top_logprobs", "include"})


def read_logprobs(body: Mapping[str, Any], limits: RequestLimits) -> bool:
    """Return True if a checked body asks for log-probabilities; a completion request's 0 does.

    Raises:
        RequestError: this model has none, or the body asks for tokens that were not chosen.
    """
    asked = body.get("logprobs", False)
    wanted = asked is not False
    for i, name in enumerate(body.get("include", ())):
        if not isinstance(name, str):
            raise fields.wrong_type(f"include[{i}]", "a string", name)
        if name not in INCLUDES:
            leave_out_value(name, INCLUDES, f"include[{i}]", _NOT_INCLUDED)
        wanted |= name == _INCLUDED_LOGPROBS
    top = body.get("top_logprobs")
    if top and not wanted:
        raise fields.invalid("top_logprobs", f"{top} needs logprobs to be true")
    if top:
        raise fields.invalid(
            "top_logprobs", f"{top} is not supported: only the chosen token's is known; use 0"
        )
    if wanted and not limits.has_logprobs:
        raise fields.invalid(
            "include" if asked is False else "logprobs",
            "this model is served one request at a time (pipeline_type LM or VLM), where "
            "log-probabilities are not known; leave it out",
        )
    return wanted


_STOP_STRING: Final = string(minLength=1, maxLength=LIMITS.max_stop_length)


def stop_member(name: str) -> Member:
    """Declare the stop strings, under the name that the endpoint has for them."""
    strings = array(_STOP_STRING, maxItems=LIMITS.max_stop_strings)
    return honoured(name, Value(one_of(_STOP_STRING, strings)), "What ends an answer.")


STOP_MEMBERS: Final[Members] = table(
    honoured("ignore_eos", BOOLEAN, "Go on until the most tokens are reached."),
    honoured("stop_token_ids", Array(TOKEN_ID.schema(""), {"maxItems": LIMITS.max_stop_token_ids})),
    honoured("include_stop_str_in_output", BOOLEAN),
)


#: Where lines end an answer, as in llama.cpp's API.
LINE_MEMBERS: Final[Members] = table(
    honoured(
        "n_indent",
        Integer(minimum=0, maximum=LIMITS.max_stop_length),
        "The answer ends before a line, after its first one, with less white space in front.",
    ),
    honoured(
        "t_max_predict_ms",
        Number(minimum=0),
        "Milliseconds after the first token, after which the answer ends if it has a whole line.",
    ),
)

#: The members that `read_stop_strings` reads; a body has one of them at most.
STOP_NAMES: Final = frozenset({"stop", "stop_sequences"})


def read_stop_strings(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
) -> tuple[str, ...]:
    """Read ``stop`` or ``stop_sequences``: a string or an array of strings, without duplicates.

    The strings of the request replace the model's; an empty array does not.

    Raises:
        RequestError: too many strings, an empty one, or one that is too long.
    """
    name = "stop_sequences" if "stop_sequences" in body else "stop"
    value = body[name]
    if isinstance(value, str):
        _check_stop_string(name, value, limits)
        return (value,)
    if not isinstance(value, list):
        raise fields.wrong_type(name, "a string or an array of strings", value)
    if len(value) > limits.max_stop_strings:
        raise fields.invalid(
            name, f"{len(value)} strings are more than the maximum {limits.max_stop_strings}"
        )
    for i, text in enumerate(value):
        _check_stop_string(f"{name}[{i}]", text, limits)
    return tuple(dict.fromkeys(value)) or defaults.stop_strings


def _check_stop_string(path: str, text: object, limits: RequestLimits) -> None:
    if not isinstance(text, str):
        raise fields.wrong_type(path, "a string", text)
    if not text:
        raise fields.invalid(path, "an empty string would end every answer before it starts")
    if len(text) > limits.max_stop_length:
        raise fields.invalid(
            path, f"{len(text)} characters are more than the maximum {limits.max_stop_length}"
        )


def read_stop_token_ids(
    body: Mapping[str, Any], defaults: ModelDefaults, limits: RequestLimits
) -> tuple[int, ...] | None:
    """Return the request's stop tokens with the model's; None if the request has none."""
    ids = body.get("stop_token_ids")
    if not ids:
        return None
    if len(ids) > limits.max_stop_token_ids:
        raise fields.invalid(
            "stop_token_ids",
            f"{len(ids)} ids are more than the maximum {limits.max_stop_token_ids}",
        )
    ids = [read_token_id(f"stop_token_ids[{i}]", token) for i, token in enumerate(ids)]
    return tuple(dict.fromkeys((*defaults.eos_token_ids, *ids)))


def read_token_id(path: str, token: object) -> int:
    """Return a token id, of any vocabulary.

    Raises:
        RequestError: it is not an integer, is negative, or is too large.
    """
    token = fields.whole(token)
    if type(token) is not int:
        raise fields.wrong_type(path, "a token id", token)
    if not 0 <= token <= fields.INT32_MAX:
        raise fields.invalid(path, f"{fields.describe(token)} is not a token id")
    return token


#: The most tokens of all answers of a request together, if it sets no limit: for samples, and for
#: beams, which return nothing before the last of them has ended.
UNASKED_TOKENS: Final = 16384
UNASKED_BEAM_TOKENS: Final = 4096

N: Final = Integer(minimum=1, maximum=fields.INT32_MAX)
CHOICE_MEMBERS: Final[Members] = table(
    honoured("n", N, f"Answers, {LIMITS.max_choices} at most; with `best_of` as many as that."),
    honoured(
        "best_of",
        POSITIVE,
        f"Beams of a beam search; {LIMITS.best_of_limit} at most unless the graph says"
        " otherwise. Not in streams.",
    ),
)


class Choices(Struct, frozen=True):
    """``n`` answers. ``beams`` above 1: the best ``n`` of a beam search."""

    n: int = 1
    beams: int = 1


#: The choices of a request that has none of the members.
ONE_CHOICE: Final = Choices()


def most_unasked(most: int | None, *, n: int, beams: int) -> int | None:
    """Return the most new tokens of each answer of a request that sets no limit.

    ``most`` is the limit of the model or of the node's options; None: no limit. A single answer
    may use all of it; several also share a fixed number.
    """
    if beams > 1:
        share = UNASKED_BEAM_TOKENS // beams
    elif n > 1:
        share = UNASKED_TOKENS // n
    else:
        return most
    share = max(1, share)
    return share if most is None else min(most, share)


def read_choices(body: Mapping[str, Any], limits: RequestLimits) -> Choices:
    """Resolve ``n`` and ``best_of`` of a checked body.

    ``best_of`` above 1 asks for beam search, as in OpenVINO Model Server. Beams are known only when
    the search has ended, so they cannot be streamed. ``n`` alone asks for that many samples.

    Raises:
        RequestError: a number is above its limit, or this model has no beam search.
    """
    beams = body.get("best_of")
    n = body.get("n", 1)
    if beams is not None and beams > limits.best_of_limit:
        raise fields.above("best_of", beams, limits.best_of_limit)
    if beams is not None and n > beams:
        raise fields.invalid("n", f"{n} is above best_of, which is {beams}")
    if beams is None and n > limits.max_choices:
        raise fields.invalid("n", f"{n} is above the maximum {limits.max_choices}")
    if beams is not None and beams > 1 and body.get("stream") is True:
        raise fields.invalid(
            "best_of",
            f"{beams} is beam search, which cannot be streamed; leave out stream or best_of",
        )
    if beams is not None and beams > 1 and not limits.has_beams:
        raise fields.invalid(
            "best_of",
            f"{beams} is beam search, which this model is not served with; leave it out; n makes "
            "several answers",
        )
    return Choices(n, beams or 1)


#: Source: OpenVINO Model Server ``llm/io_processing/base_generation_config_builder.cpp``.
DEFAULT_ASSISTANT_TOKENS: Final = 5
DEFAULT_NGRAM_SIZE: Final = 3
#: Longer matches hardly occur, and the search for them takes time.
MAX_NGRAM_SIZE: Final = 32

ASSISTED_MEMBERS: Final[Members] = table(
    honoured(
        "num_assistant_tokens",
        COUNT,
        beside=one_of(
            *(
                record({name: one_of(const(None), values([0]))})
                for name in ("num_assistant_tokens", "assistant_confidence_threshold")
            )
        ),
    ),
    honoured("assistant_confidence_threshold", Number(minimum=0, maximum=1)),
    honoured("max_ngram_size", COUNT),
)


class AssistedDecoding(NamedTuple):
    """The values for `GenerationSettings`; all 0 if nothing is proposed."""

    num_assistant_tokens: int = 0
    assistant_confidence_threshold: float = 0.0
    max_ngram_size: int = 0


NOTHING_PROPOSED: Final = AssistedDecoding()


def read_assisted_decoding(body: Mapping[str, Any], mode: DecodingMode) -> AssistedDecoding:
    """Resolve the three members of a checked body; 0 asks for nothing.

    Raises:
        RequestError: one is wrong, or cannot be honoured by this model.
    """
    tokens = body.get("num_assistant_tokens")
    threshold = body.get("assistant_confidence_threshold")
    ngram = body.get("max_ngram_size")
    if tokens and threshold:
        raise fields.combined("num_assistant_tokens", "assistant_confidence_threshold; give one")
    if mode == "standard":
        _refuse_any(
            "this model is served without a draft model and without prompt look-up; leave it out",
            num_assistant_tokens=tokens,
            assistant_confidence_threshold=threshold,
            max_ngram_size=ngram,
        )
        return NOTHING_PROPOSED
    if tokens and tokens > MAX_ASSISTANT_TOKENS:
        raise fields.invalid(
            "num_assistant_tokens", f"{tokens} is above the maximum {MAX_ASSISTANT_TOKENS}"
        )
    if mode == "prompt_lookup":
        if threshold:
            raise fields.invalid(
                "assistant_confidence_threshold",
                "this model has no draft model but looks up its prompt; use num_assistant_tokens",
            )
        if ngram and ngram > MAX_NGRAM_SIZE:
            raise fields.invalid("max_ngram_size", f"{ngram} is above the maximum {MAX_NGRAM_SIZE}")
        return AssistedDecoding(
            tokens or DEFAULT_ASSISTANT_TOKENS, max_ngram_size=ngram or DEFAULT_NGRAM_SIZE
        )
    _refuse_any("it is for prompt look-up; this model has a draft model", max_ngram_size=ngram)
    if threshold:
        return AssistedDecoding(assistant_confidence_threshold=threshold)
    return AssistedDecoding(tokens or DEFAULT_ASSISTANT_TOKENS)


def _refuse_any(why: str, **values: float | None) -> None:
    for name, value in values.items():
        if value:
            raise fields.invalid(name, why)


def refuse_unassisted(
    mode: DecodingMode,
    assisted: AssistedDecoding,
    *,
    min_tokens: int | None,
    do_sample: bool,
) -> None:
    """Refuse settings that the engine's library ignores when tokens are proposed.

    ``mode``: one that proposes tokens. ``min_tokens``: of the request. ``do_sample``: the request
    samples.

    Raises:
        RequestError: with the member's name.
    """
    if min_tokens:
        raise fields.invalid(
            "min_tokens",
            f"{min_tokens} cannot be kept to with {_WORDS[mode]}, which this model is served with",
        )
    if assisted.assistant_confidence_threshold and do_sample:
        raise fields.combined(
            "assistant_confidence_threshold",
            "sampling; set temperature to 0, or use num_assistant_tokens",
        )


_WORDS: Final[dict[DecodingMode, str]] = {
    "standard": "",
    "speculative": "a draft model",
    "eagle3": "a draft model",
    "prompt_lookup": "prompt look-up",
}


def fit_to_model(
    settings: GenerationSettings,
    prompt_tokens: int,
    length: int | None,
    *,
    param: str,
    has_images: bool = False,
    may_be_less: bool = False,
) -> GenerationSettings:
    """Check that prompt and answer fit a model of ``length`` tokens; None: of any length.

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
            whose = "" if name in body else " of the model's generation_config.json"
            raise fields.invalid(
                name, f"{value}{whose}: {fields.COMBINED} best_of {beams}; use {neutral:g}"
            )


_NEUTRAL_PENALTIES: Final = {
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}


def _top_k(body: Mapping[str, Any], defaults: ModelDefaults) -> int | None:
    """Return how many tokens may be sampled from; None: all."""
    asked: int | None = body.get("top_k")
    if asked is not None:
        return None if asked in (-1, 0) else asked
    if defaults.top_k is None:
        return DEFAULT_TOP_K
    return defaults.top_k or None
