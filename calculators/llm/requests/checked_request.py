"""`CheckedRequest`: what requests to all endpoints that generate have in common.

`GENERATING` has the members that all these endpoints have, with those that change nothing but are
checked, of streams, and of the cut of a prompt that is too long. `read_body` refuses unknown and
wrong members; `read_generation` resolves the shared ones. Each endpoint adds members, a reader and
a subclass (`calculators.llm.requests.completions_request`, `calculators.llm.api`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    EVERYWHERE,
    STRING,
    Array,
    Enumeration,
    Integer,
    Members,
    Object,
    Value,
    check_object,
    honoured,
    ignored,
    left_out,
    read_members,
    read_model,
    refused,
    table,
)
from calculators.kit.requests.schema import const, one_of, record, ref, request, string, word
from calculators.language.generation_request import Speech, StructuredOutput
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import (
    ASSISTED_MEMBERS,
    CHOICE_MEMBERS,
    MAX_TOKENS_NAMES,
    SAMPLING_MEMBERS,
    STOP_MEMBERS,
    read_sampling,
)
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS, read_structured_output

#: Formats of OpenAI's ``audio``; ``chunk_frames`` is OpenVINO Model Server's
#: (``llm/apis/openai_api_handler.cpp``). A stream has no WAV: its head would have a length that
#: nobody knows yet.
SPEECH_FORMATS: Final = ("wav", "pcm16")
#: Frames of a piece of a stream; 8 seconds.
MAX_CHUNK_FRAMES: Final = 100
_SEED_RANGE: Final = 2**32
_TEXT: Final = "text"
_AUDIO: Final = "audio"
#: Names of voices in an error.
_SHOWN: Final = 20
_FORM: Final = Object(
    request(
        {
            "voice": string("One of the model's; by default its first."),
            "format": word(SPEECH_FORMATS, "By default `wav`; in a stream it is `pcm16`."),
        }
    )
)


def _modalities(value: Any, path: str) -> list[str]:
    modalities = Array().read(value, path)
    for i, modality in enumerate(modalities):
        if not isinstance(modality, str):
            raise fields.wrong_type(f"{path}[{i}]", "a string", modality)
    return modalities


def _written(value: Any, path: str) -> None:
    modalities = _modalities(value, path)
    if _AUDIO in modalities:
        place = f"{path}[{modalities.index(_AUDIO)}]"
        raise fields.invalid(place, "sound is one of /chat/completions and /responses")


def _audio(value: Any, path: str) -> dict[str, str]:
    audio = _FORM.read(value, path)
    form = audio.get("format")
    if isinstance(form, str) and form not in SPEECH_FORMATS:
        raise fields.invalid(
            f"{path}.format", f'{fields.describe(form)} is neither "wav" nor "pcm16"'
        )
    return {
        name: text
        for name in ("voice", "format")
        if (text := fields.string(audio, name, f"{path}.{name}")) is not None
    }


_CHUNK: Final = Integer(minimum=1, maximum=MAX_CHUNK_FRAMES)
_FRAMES: Final = "The frames of 80 ms in a piece of a stream; OpenVINO Model Server's."
_WORDS: Final = {"type": "array", "items": string()}

#: Members for the endpoints whose answers have a place for sound.
SPEECH_MEMBERS: Final[Members] = table(
    honoured(
        "modalities",
        Value(_WORDS, _modalities),
        "With `audio` the answer is spoken too, if the model speaks; without `text` its text is "
        "the transcript of the sound only.",
    ),
    honoured("audio", Value(_FORM.schema(""), _audio), "The sound of an answer that is spoken."),
    honoured("chunk_frames", _CHUNK, _FRAMES),
)
#: Members for the others.
WRITTEN_MEMBERS: Final[Members] = table(
    honoured(
        "modalities",
        Value(Array({"type": "string", "not": {"const": _AUDIO}}).schema(""), _written),
    ),
    honoured("audio", Value(Object().schema(""), _audio)),
    honoured("chunk_frames", _CHUNK),
)


def read_speech(body: Mapping[str, Any], limits: RequestLimits) -> Speech | None:
    """Return the sound that a checked body asks for; None: it asks for text only.

    Raises:
        RequestError: the model does not speak, or not so; other members cannot be combined with it.
    """
    modalities = body.get("modalities")
    if modalities is None or _AUDIO not in modalities:
        return None
    audio = body.get("audio") or {}
    form = audio.get("format")
    if body.get("stream"):
        if form == "wav":
            raise fields.invalid("audio.format", 'a stream has "pcm16" only')
        form = "pcm16"
    if body.get("stop"):
        raise fields.invalid("stop", "an answer that is spoken cannot end at a text")
    return checked_speech(
        Speech(
            audio.get("voice", ""),
            form or "wav",
            body.get("chunk_frames"),
            _TEXT in modalities,
            None if body.get("seed") is None else body["seed"] % _SEED_RANGE,
        ),
        limits,
        f"modalities[{modalities.index(_AUDIO)}]",
    )


def checked_speech(
    speech: Speech | None, limits: RequestLimits, path: str = "modalities"
) -> Speech | None:
    """Return the sound of an answer, with the voice as the model names it.

    Raises:
        RequestError: the model does not speak, with ``path`` as ``param``, or has no such voice.
    """
    if speech is None or limits.voices is None:
        return speech
    if not limits.voices:
        raise fields.invalid(path, "this model does not speak: it answers with text only")
    voices = {name.lower(): name for name in limits.voices}
    if speech.voice and speech.voice.lower() not in voices:
        known = ", ".join(limits.voices[:_SHOWN])
        raise RequestError(
            f"audio.voice: {fields.describe(speech.voice)} is none of this model's voices: {known}",
            param="audio.voice",
        )
    return speech._replace(voice=voices.get(speech.voice.lower(), ""))


#: Members of all requests. They have no effect, but a wrong type is a mistake of the client.
CHECKED_MEMBERS: Final[Members] = table(
    honoured("user", STRING, "Changes nothing."), WRITTEN_MEMBERS
)
#: The options, with their descriptions in the OpenAPI document.
STREAM_OPTIONS: Final = {
    "include_usage": "The last event says how many tokens there were.",
    "continuous_usage_stats": "With `include_usage`: every event says how many there are so far.",
    # Padding hides the lengths of events from observers of the connection.
    "include_obfuscation": "Changes nothing: no padding is sent.",
}

STREAMING_MEMBERS: Final[Members] = table(
    honoured("stream", BOOLEAN, "Answer with server-sent events."),
    honoured(
        "stream_options",
        Object(ref("StreamOptions")),
        beside=one_of(
            record({"stream_options": const(None)}),
            record({"stream": const(True)}, required=("stream",)),
        ),
    ),
)


def _read_streaming(body: Mapping[str, Any]) -> tuple[bool, bool, bool]:
    """Return ``stream``, ``include_usage`` and ``has_running_usage`` of a checked body.

    The second is true only with the first, and the third only with both.

    Raises:
        RequestError: options without a stream, an unknown option, or one of a wrong type.
    """
    stream: bool = body.get("stream", False)
    options = body.get("stream_options")
    if options is None:
        return stream, False, False
    if not stream:
        raise fields.invalid("stream_options", "only allowed when stream is true")
    if not options.keys() <= STREAM_OPTIONS.keys():
        check_object(options, "stream_options", STREAM_OPTIONS)
    for name, value in options.items():
        if not (value is None or isinstance(value, bool)) and name in STREAM_OPTIONS:
            raise fields.wrong_type(f"stream_options.{name}", "true or false", value)
    usage = bool(options.get("include_usage"))
    return stream, usage, usage and bool(options.get("continuous_usage_stats"))


#: The member that asks for it.
TRUNCATES: Final = "truncate_prompt_tokens"
#: Bytes of one token id of a prompt.
_ID_BYTES: Final = 8

TRUNCATION_MEMBERS: Final[Members] = table(
    honoured(
        TRUNCATES,
        Integer(
            minimum=-1, maximum=fields.INT32_MAX, refused={0: "leaves nothing; -1 is all that fits"}
        ),
        "Only the last tokens of the prompt, so many at most; -1 is what the model holds beside the"
        " answer. Text and token ids only, without images.",
    ),
    honoured(
        "truncation_side",
        Enumeration(("left", "right")),
        "With `truncate_prompt_tokens`: `left` cuts the beginning off, which is the default.",
    ),
)


class PromptTruncation(NamedTuple):
    """The cut of a prompt.

    Attributes:
        tokens: the most tokens that are left; -1 is all that fit.
        keeps_end: cut the beginning off, not the end.
    """

    tokens: int
    keeps_end: bool = True

    def cut(self, input_ids: bytes, room: int | None) -> bytes:
        """Return the ids that are left of a prompt, 64-bit integers like ``input_ids``.

        ``room``: the tokens that the model can take as a prompt; None: any number.

        Raises:
            RequestError: the model cannot hold so many, or has no known length for -1.
        """
        most = self.tokens
        if room is not None and most > room:
            raise fields.invalid(
                TRUNCATES,
                f"{most} is above the maximum {room}, which this model can take beside the answer",
            )
        if most == -1:
            if room is None:
                raise fields.invalid(TRUNCATES, "-1 needs a model of known length; send a number")
            most = max(1, room)
        size = most * _ID_BYTES
        return input_ids[-size:] if self.keeps_end else input_ids[:size]


def read_truncation(body: Mapping[str, Any]) -> PromptTruncation:
    """Resolve the members of a checked body that has `TRUNCATES`."""
    return PromptTruncation(body[TRUNCATES], body.get("truncation_side") != "right")


#: Members that every endpoint that generates has.
GENERATING: Final[Members] = table(
    EVERYWHERE,
    SAMPLING_MEMBERS,
    CHOICE_MEMBERS,
    STOP_MEMBERS,
    ASSISTED_MEMBERS,
    STREAMING_MEMBERS,
    STRUCTURED_MEMBERS,
    TRUNCATION_MEMBERS,
    CHECKED_MEMBERS,
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention "
        "prompt_cache_options client_metadata cache_salt priority request_id kv_transfer_params",
    ),
    ignored("is about how, not what, is generated", "guided_decoding_backend"),
    ignored(
        "changes nothing: there are only the spaces that the model writes",
        "spaces_between_special_tokens",
    ),
    refused("is not supported; use tools", "functions"),
    refused("is not supported: prompts are text or token ids", "prompt_embeds"),
    refused("is not supported; completions with echo and logprobs give them", "prompt_logprobs"),
    refused("is not accepted from a request: the model's own template is used", "chat_template"),
    refused("is not supported; continue a text with /completions", "continue_final_message"),
    refused(
        "is not supported",
        "bad_words allowed_token_ids return_tokens_as_token_ids guided_whitespace_pattern "
        "repetition_detection",
    ),
    refused("is one of /completions: it fills in what is before a text", "suffix"),
    refused("is not accepted from a request", "logits_processors"),
    refused("is not supported; use best_of", "use_beam_search"),
    refused("is not supported; use reasoning_effort", "thinking_token_budget"),
    refused("is one of /chat/completions and /completions", "return_token_ids"),
    left_out("is not supported: this server searches nothing", "web_search_options"),
    left_out(
        "is one of other servers, and has no effect here",
        "models mode speed reasoning_format search_options conversation_id thread thread_id "
        "prompt_id",
    ),
    refused("is not supported: nothing is moderated here", "moderation"),
    refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    refused(
        "is not supported", "mm_processor_kwargs media_io_kwargs vllm_xargs", may_be_empty=True
    ),
)

#: Asks for token ids, in the endpoints of OpenAI that vLLM has it in.
TOKEN_IDS_MEMBER: Final = honoured(
    "return_token_ids",
    BOOLEAN,
    "The answer has `prompt_token_ids`, and `token_ids` in each choice. In a stream the first event"
    " of an answer has those of the prompt, and every event those of the tokens since the last.",
)

#: Members of other servers and libraries, and the member that has their effect here.
ELSEWHERE: Final = {
    "extra_body": "that is an argument of OpenAI's client; its members stand in the body itself",
    "max_new_tokens": 'use "max_tokens"',
    "n_predict": 'use "max_tokens"',
    "num_predict": 'use "max_tokens"',
    "random_seed": 'use "seed"',
    "think": 'use "enable_thinking", or "reasoning_effort"',
}


class CheckedRequest(Struct, frozen=True, kw_only=True):
    """A checked request: how to generate, and how to write what is generated.

    Attributes:
        model: as the client named it; goes into the answer.
        stream: answer with events.
        include_usage: the last event has the usage.
        has_running_usage: so has every event; only with ``include_usage``.
        returns_token_ids: the answer has the token ids of prompt and choices.
        truncation: the cut of a prompt that is too long; None: it is refused.
        limits_itself: the limit of new tokens is the client's own choice. Otherwise the answer may
            have fewer where prompt and limit together are longer than the model.
        n: answers per prompt. ``settings.num_return_sequences`` is what the engine makes: where
            that is 1 and ``n`` is more, all ``n`` are the same and the caller copies.
        settings: for the engine.
        include_stop_str_in_output: leave the stop string that ended an answer in its text.
        skip_special_tokens: leave out the text of special tokens.
        structured: the form that the answer must have; None is any text.
        speech: the answer is spoken; None: it is not.
        least_indent: the answer ends before a line with less white space in front; 0: at none.
        most_seconds: after which the answer ends, if it has a whole line; 0: no limit.
        members: the members that the model reads, as chats name them, of an API with names of its
            own; None: they stand in the body.
    """

    model: str
    stream: bool = False
    include_usage: bool = False
    has_running_usage: bool = False
    returns_token_ids: bool = False
    truncation: PromptTruncation | None = None
    limits_itself: bool = True
    n: int = 1
    settings: GenerationSettings
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    structured: StructuredOutput | None = None
    speech: Speech | None = None
    least_indent: int = 0
    most_seconds: float = 0
    members: Mapping[str, Any] | None = None


def read_body(value: object, members: Members) -> dict[str, Any]:
    """Return the members of a parsed body that have an effect, as their readers return them.

    None of them is None.

    Raises:
        RequestError: the body is not an object; else the first member that ``members`` lacks,
            else the first one that is refused or wrong, with its name as ``param``.
    """
    return read_members(fields.body_object(value), members, lambda name: ELSEWHERE.get(name, ""))


def read_generation(
    body: Mapping[str, Any],
    defaults: ModelDefaults,
    limits: RequestLimits,
    *,
    needs_max_tokens: bool = False,
    may_echo: bool = False,
) -> CheckedRequest:
    """Resolve the members of a checked body that all endpoints share; see `read_sampling`.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    model = read_model(body)
    stream, include_usage, has_running_usage = _read_streaming(body)
    return CheckedRequest(
        model=model,
        stream=stream,
        include_usage=include_usage,
        has_running_usage=has_running_usage,
        returns_token_ids=body.get("return_token_ids", False),
        truncation=read_truncation(body) if TRUNCATES in body else None,
        # A number that every request must have may be a default of the client's library:
        # Vercel's provider for Anthropic sends 4096 to models that it does not know.
        limits_itself=not needs_max_tokens and not MAX_TOKENS_NAMES.isdisjoint(body),
        settings=read_sampling(
            body, defaults, limits, needs_max_tokens=needs_max_tokens, may_echo=may_echo
        ),
        n=body.get("n", 1),
        include_stop_str_in_output=body.get(
            "include_stop_str_in_output", bool(defaults.include_stop_str_in_output)
        ),
        skip_special_tokens=body.get("skip_special_tokens", True),
        structured=None
        if STRUCTURED_MEMBERS.keys().isdisjoint(body)
        else read_structured_output(body),
        speech=read_speech(body, limits) if "modalities" in body else None,
        least_indent=body.get("n_indent", 0),
        most_seconds=body.get("t_max_predict_ms", 0) / 1000,
    )
