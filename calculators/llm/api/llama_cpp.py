"""llama.cpp's own API: requests to ``/completion`` and ``/infill``, and their answers.

Both become a completion of the neutral form, whose members have OpenAI's names. Members about
samplers that the engine lacks are ignored: clients of editors send them all, and a completion is
what they want.

An event has the new text; the last one of a choice has what a whole answer has, without the text.
Streams just end: there is no ``[DONE]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    DEFAULT_MODEL,
    STRING,
    Array,
    Integer,
    Members,
    Value,
    check_object,
    honoured,
    ignored,
    refused,
    table,
)
from calculators.kit.requests.schema import Schema, array, record, string
from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.language.generation_request import Infill
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import AnswerChoice, answering_model, quote
from calculators.llm.requests.checked_request import read_body, read_generation
from calculators.llm.requests.completions_request import (
    COMPLETION_MEMBERS,
    CompletionRequest,
    read_prompts,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import (
    LINE_MEMBERS,
    SAMPLING_MEMBERS,
    STOP_MEMBERS,
    stop_member,
)
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS

#: Names here, by the names that the neutral form has.
_NAMES: Final = {
    "max_tokens": "n_predict",
    "n": "n_cmpl",
    "repetition_penalty": "repeat_penalty",
    "guided_grammar": "grammar",
    "guided_json": "json_schema",
    "n_indent": "n_indent",
    "t_max_predict_ms": "t_max_predict_ms",
}
_SAME: Final = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty"),
    *("presence_penalty",),
)
_COMMON: Final[Members] = table(
    DEFAULT_MODEL,
    *(SAMPLING_MEMBERS[name] for name in _SAME),
    replace(SAMPLING_MEMBERS["repetition_penalty"], name="repeat_penalty"),
    STOP_MEMBERS["ignore_eos"],
    stop_member("stop"),
    honoured("stream", BOOLEAN, "Answer with server-sent events."),
    honoured(
        "n_predict",
        Integer(minimum=-1, maximum=INT32_MAX),
        "How many tokens the answer may have; -1 is no limit. With 0 the prompt is computed for "
        "later requests, and the answer has no text.",
    ),
    honoured("n_cmpl", Integer(minimum=1, maximum=INT32_MAX), "Answers per prompt."),
    LINE_MEMBERS,
    honoured("user", STRING, "Who types, where clients have a key in common."),
    replace(STRUCTURED_MEMBERS["guided_grammar"], name="grammar"),
    replace(STRUCTURED_MEMBERS["guided_json"], name="json_schema"),
    honoured("return_tokens", BOOLEAN, "The answer has the ids of its tokens."),
    honoured(
        "response_fields",
        Array(string(), {}),
        "Only these members of the answer; `timings/prompt_n` is one inside another, and stands "
        "under that name.",
    ),
    ignored(
        "is about how llama.cpp samples, or about its cache and slots",
        "cache_prompt id_slot n_keep n_discard n_cache_reuse samplers min_keep typical_p "
        "repeat_last_n dynatemp_range dynatemp_exponent dry_multiplier dry_base dry_allowed_length "
        "dry_penalty_last_n dry_sequence_breakers xtc_probability xtc_threshold mirostat "
        "mirostat_tau mirostat_eta t_max_prompt_ms timings_per_token return_progress "
        "post_sampling_probs sse_ping_interval lora backend_sampling",
    ),
    refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    refused("is not supported: use logprobs of /v1/completions", "n_probs"),
)

COMPLETION_MEMBERS_OF_LLAMA_CPP: Final[Members] = table(
    _COMMON, COMPLETION_MEMBERS["prompt"], honoured("suffix", STRING, "As `input_suffix`.")
)
_EXTRA: Final[Schema] = record({"filename": string(), "text": string()}, required=("text",))
INFILL_MEMBERS: Final[Members] = table(
    _COMMON,
    honoured("input_prefix", STRING, "The text before the gap.", is_required=True),
    honoured("input_suffix", STRING, "The text after the gap.", is_required=True),
    honoured(
        "input_extra",
        Value(array(_EXTRA, maxItems=LIMITS.max_messages), Array().read),
        "Other files, or parts of them, the last one closest to the gap.",
    ),
    honoured("prompt", STRING, "The beginning of the missing text."),
)
#: The members of a file; clients of editors say when they have seen it.
_FILE: Final = ("filename", "text", "time")


def parse_llama_cpp_completion(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> CompletionRequest:
    """Check a parsed body of ``/completion``.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, COMPLETION_MEMBERS_OF_LLAMA_CPP)
    suffix = body.get("suffix") or None
    prompts = read_prompts(body, limits, least=1 if suffix is None else 0)
    infill = None if suffix is None else Infill(suffix, is_cut=True, user=body.get("user", ""))
    return _completion(body, prompts, infill, limits, defaults)


def parse_infill_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> CompletionRequest:
    """Check a parsed body of ``/infill``; raises as `parse_llama_cpp_completion`."""
    body = read_body(value, INFILL_MEMBERS)
    for name in ("input_prefix", "input_suffix"):
        if name not in body:
            raise fields.missing(name)
    infill = Infill(
        body["input_suffix"],
        _read_extra(body.get("input_extra", [])),
        body.get("prompt", ""),
        True,
        body.get("user", ""),
    )
    return _completion(body, (body["input_prefix"],), infill, limits, defaults)


def _completion(
    body: Mapping[str, Any],
    prompts: tuple[str | tuple[int, ...], ...],
    infill: Infill | None,
    limits: RequestLimits,
    defaults: ModelDefaults,
) -> CompletionRequest:
    members = {name: body[name] for name in (*_SAME, "ignore_eos", "stop") if name in body}
    members |= {name: body[here] for name, here in _NAMES.items() if here in body}
    asked = members.pop("max_tokens", -1)
    if asked >= 0:
        # The engine generates at least one token, which an answer to 0 does not show.
        members["max_tokens"] = max(1, asked)
    shown = {"n_predict": asked, "response_fields": body.get("response_fields")}
    for i, name in enumerate(body.get("response_fields", ())):
        if not isinstance(name, str):
            raise fields.wrong_type(f"response_fields[{i}]", "a string", name)
    try:
        # Any name: the front knows which model is meant.
        generation = read_generation({"model": "any", **members}, defaults, limits)
    except RequestError as error:
        raise fields.renamed(error, _NAMES) from None
    generation = structs.replace(
        generation,
        model=body.get("model", ""),
        stream=body.get("stream", False),
        returns_token_ids=body.get("return_tokens", False),
        # llama.cpp's clients ask for more than is left.
        limits_itself=False,
        members=members,
    )
    return CompletionRequest(
        **structs.asdict(generation), prompts=prompts, infill=infill, shown=shown
    )


def _read_extra(files: list[Any]) -> tuple[tuple[str, str], ...]:
    read: list[tuple[str, str]] = []
    for i, file in enumerate(files):
        path = f"input_extra[{i}]"
        if not isinstance(file, dict):
            raise fields.wrong_type(path, "an object", file)
        check_object(file, path, _FILE)
        text = fields.string(file, "text", f"{path}.text")
        if text is None:
            raise fields.missing(f"{path}.text")
        read.append((fields.string(file, "filename", f"{path}.filename") or "tmp", text))
    return tuple(read)


_STOP_TYPES: Final = {
    FinishReason.STOP: "eos",
    FinishReason.LENGTH: "limit",
}


class LlamaCppWriter(TextOnlyWriter):
    """An `AnswerWriter` of llama.cpp's completions.

    Times are measured in the server, from the submission of the prompt; where no language model of
    this server has answered, from the first event.
    """

    __slots__ = ("_began", "_begun", "_ends", "_fields", "_texts")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._begun = begun
        self._began = perf_counter_ns()
        self._fields: Sequence[str] | None = begun.request.echo.get("response_fields")
        self._texts = [""] * begun.choices
        #: Finish reasons and stop strings.
        self._ends: list[tuple[FinishReason, str | None]] = [
            (FinishReason.STOP, None) for _ in range(begun.choices)
        ]

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        answers = []
        for index, choice in enumerate(choices):
            text = choice.content if self._shows_text else ""
            self._texts[index] = text
            self._ends[index] = (choice.finish_reason, choice.stop_string)
            tokens = choice.token_ids if self._shows_text else []
            answers.append(self._final(index, usage, content=text, tokens=tokens))
        return _json(answers[0] if len(answers) == 1 else answers)

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        tokens = [] if self.details is None else self.details.take_ids(index)
        if not self._shows_text or not (text or tokens):
            return ""
        self._texts[index] += text
        return (
            f'data: {{"index":{index},"content":{quote(text)},"tokens":{tokens},"stop":false}}\n\n'
        )

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._ends[index] = (reason, stop_string)
        return ""

    def end(self, usage: Usage) -> str:
        # Here, where the tokens are counted.
        events = []
        for index in range(len(self._ends)):
            # Tokens that made no text, as the tokens of a stop string do not.
            rest = [] if self.details is None else self.details.take_ids(index)
            tokens = rest if self._shows_text else []
            events.append(_json(self._final(index, usage, content="", tokens=tokens)))
        return "".join(f"data: {event}\n\n" for event in events)

    def _final(
        self, index: int, usage: Usage, *, content: str, tokens: Sequence[int]
    ) -> Mapping[str, Any]:
        """Return the members of a whole answer, or of the last event of a choice."""
        begun, text = self._begun, self._texts[index]
        prompts = begun.prompts
        reason, stop_string = self._ends[index]
        stop_type = "word" if stop_string else _STOP_TYPES.get(reason, "none")
        if stop_string == "":
            stop_type = "limit"
        predicted = usage.completion_tokens if self._shows_text else 0
        members = {
            "index": index,
            "content": content,
            "tokens": tokens,
            "id_slot": 0,
            "stop": True,
            "model": answering_model(begun),
            "tokens_predicted": predicted,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": self._settings(),
            "prompt": prompts[begun.prompt_of(index, len(prompts))] if prompts else "",
            "has_new_line": "\n" in text,
            "truncated": False,
            "stop_type": stop_type,
            "stopping_word": stop_string or "",
            "tokens_cached": usage.prompt_tokens + predicted,
            "timings": self._timings(usage, predicted),
        }
        return members if self._fields is None else _selected(members, self._fields)

    @property
    def _shows_text(self) -> bool:
        """False if only the prompt was to be computed."""
        return bool(self._begun.request.echo.get("n_predict", -1) != 0)

    def _settings(self) -> Mapping[str, Any]:
        begun = self._begun
        sampling = begun.sampling
        found = {
            "n_predict": begun.request.echo.get("n_predict", -1),
            "stream": begun.request.stream,
        }
        if sampling is None:
            return found
        known = {
            "n_ctx": sampling.length,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        return found | {name: value for name, value in known.items() if value is not None}

    def _timings(self, usage: Usage, predicted: int) -> Mapping[str, Any]:
        first = end = began = self._began
        record = self._begun.request.record
        if record is not None and record.generations:
            generation = record.generations[-1]
            began = generation.submitted or began
            first = generation.first_token or first
            end = generation.ended or perf_counter_ns()
        cached = usage.cached_tokens or 0
        return {
            "cache_n": cached,
            **_rates("prompt", usage.prompt_tokens - cached, first - began),
            **_rates("predicted", predicted, end - first if predicted else 0),
        }


def _rates(name: str, count: int, nanoseconds: int) -> Mapping[str, float]:
    milliseconds = max(0, nanoseconds) / 1e6
    return {
        f"{name}_n": count,
        f"{name}_ms": milliseconds,
        f"{name}_per_token_ms": milliseconds / count if count else 0.0,
        f"{name}_per_second": count / milliseconds * 1e3 if milliseconds else 0.0,
    }


def _selected(members: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return the members that a client asks for, by its names; unknown ones are left out."""
    found: dict[str, Any] = {}
    for name in names:
        value: Any = members
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            found[name] = value
    return found


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
