"""The API of Hugging Face's text-generation-inference: requests and their answers.

A request to ``/generate``, ``/generate_stream`` or ``/`` becomes a completion of the neutral form,
whose members have OpenAI's names. As there, the likeliest token is taken unless a member about
sampling is given.

A stream has an event for each token where log-probabilities are known and asked for, else for each
piece of text, and ends with one that has the whole text. There is no ``[DONE]``.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    DEFAULT_MODEL,
    EVERYWHERE,
    STRING,
    Array,
    Integer,
    Members,
    Number,
    Object,
    Value,
    body_schema,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import const, one_of, record, string
from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import AnswerChoice, quote
from calculators.llm.requests.checked_request import TRUNCATION_MEMBERS, read_body, read_generation
from calculators.llm.requests.completions_request import CompletionRequest
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.sampling import SAMPLING_MEMBERS
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS

#: The limit of a request that sets none, as in text-generation-inference.
DEFAULT_NEW_TOKENS: Final = 100
#: Names of members in ``parameters``, by the names that the neutral form has.
_NAMES: Final = {
    "max_tokens": "max_new_tokens",
    "stop": "stop",
    "repetition_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "seed": "seed",
    "truncate_prompt_tokens": "truncate",
}
_SAMPLING: Final = ("temperature", "top_k", "top_p")
_FORMS: Final = {"json": "guided_json", "json_schema": "guided_json", "regex": "guided_regex"}
_GRAMMAR: Final = one_of(
    *(
        record(
            {"type": const(kind), "value": STRUCTURED_MEMBERS[name].reader.schema("")},
            required=("type", "value"),
        )
        for kind, name in _FORMS.items()
    )
)

PARAMETERS: Final[Members] = table(
    *(SAMPLING_MEMBERS[name] for name in _NAMES if name in SAMPLING_MEMBERS),
    honoured("max_new_tokens", Integer(minimum=1, maximum=INT32_MAX), f"{DEFAULT_NEW_TOKENS}."),
    honoured(
        "stop",
        Array(
            string(minLength=1, maxLength=LIMITS.max_stop_length),
            {"maxItems": LIMITS.max_stop_strings},
        ),
        "Texts.",
    ),
    honoured("truncate", TRUNCATION_MEMBERS["truncate_prompt_tokens"].reader, "The prompt's last."),
    # With any member about sampling the temperature is 1, and 0 would leave no token.
    honoured("top_p", Number(above=0, maximum=1), SAMPLING_MEMBERS["top_p"].about),
    honoured("do_sample", BOOLEAN, "True samples also where nothing else says how."),
    honoured("return_full_text", BOOLEAN, "`generated_text` begins with the prompt."),
    honoured("details", BOOLEAN, "The answer has its tokens, and why it ends."),
    honoured("top_n_tokens", Integer(minimum=0, maximum=1), "Only the chosen token is known."),
    honoured("best_of", Integer(minimum=1, maximum=1), "One answer is made."),
    honoured("grammar", Object(_GRAMMAR), "A JSON schema or a regular expression to follow."),
    ignored("changes nothing in the text", "watermark return_prompt_tokens"),
    ignored("is about a way of sampling that the engine lacks", "typical_p"),
    refused("is not supported; name the adapter as model", "adapter_id"),
    refused("is not supported: prompts are not scored here", "decoder_input_details"),
)
GENERATE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    DEFAULT_MODEL,
    honoured(
        "inputs",
        Value(string(minLength=1), STRING.read),
        "The text to go on with.",
        is_required=True,
    ),
    honoured("parameters", Object(body_schema(PARAMETERS))),
    honoured("stream", BOOLEAN, "Answer with server-sent events."),
)


def parse_generate_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults, *, is_list: bool = False
) -> CompletionRequest:
    """Check a parsed body.

    ``is_list``: a whole answer is a list, as at ``/``.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    body = read_body(value, GENERATE_MEMBERS)
    if not body.get("inputs"):
        raise fields.missing("inputs", "a text; in SGLang's form text or input_ids")
    try:
        given = read_members(body.get("parameters", {}), PARAMETERS)
        members = _members(given, limits)
        # Any name: the front knows which model is meant.
        generation = read_generation({"model": "any", **members}, defaults, limits)
    except RequestError as error:
        raise fields.below(fields.renamed(error, _NAMES), "parameters") from None
    stream = body.get("stream", False)
    shows_tokens = given.get("details", False) or stream
    shown = {
        "is_list": is_list,
        "details": given.get("details", False),
        "prefix": body["inputs"] if given.get("return_full_text") else "",
        "top_tokens": bool(given.get("top_n_tokens")),
        "seed": given.get("seed"),
    }
    generation = structs.replace(
        generation,
        model=body.get("model", ""),
        stream=stream,
        returns_token_ids=shows_tokens,
        limits_itself="max_new_tokens" in given,
        members=members,
    )
    return CompletionRequest(
        **structs.asdict(generation),
        prompts=(body["inputs"],),
        logprobs=members.get("logprobs"),
        shown=shown,
    )


def _members(given: Mapping[str, Any], limits: RequestLimits) -> dict[str, Any]:
    """Return the parameters as a completion has them."""
    members = {name: given[here] for name, here in _NAMES.items() if here in given}
    members.setdefault("max_tokens", DEFAULT_NEW_TOKENS)
    if not any(name in given for name in _SAMPLING):
        members["temperature"] = 1 if given.get("do_sample") else 0
    elif given.get("temperature") is None:
        members["temperature"] = 1
    if given.get("details") and limits.has_logprobs:
        members["logprobs"] = 0
    grammar = given.get("grammar")
    if grammar is not None:
        kind = fields.string(grammar, "type", "grammar.type") or ""
        if kind not in _FORMS:
            words = ", ".join(f'"{word}"' for word in _FORMS)
            raise fields.invalid("grammar.type", f"{fields.describe(kind)} is none of {words}")
        name = _FORMS[kind]
        members[name] = STRUCTURED_MEMBERS[name].read(grammar.get("value"), "grammar.value")
    return members


_FINISH_REASONS: Final = {FinishReason.LENGTH: "length"}


class GenerateWriter(TextOnlyWriter):
    """An `AnswerWriter` of one text."""

    __slots__ = ("_count", "_ending", "_ids", "_shown", "_text")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._shown = begun.request.echo
        #: Ids of tokens that no event has had yet.
        self._ids: deque[int] = deque()
        self._count = 0
        self._text = ""
        self._ending = "eos_token"

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        (choice,) = choices
        self._end(choice.finish_reason, choice.stop_string)
        answer: dict[str, Any] = {"generated_text": self._shown.get("prefix", "") + choice.content}
        if self._shown.get("details"):
            self._ids.extend(choice.token_ids)
            tokens = [self._token(each) for each in choice.logprobs or ()]
            while self._ids:
                tokens.append(_token(self._ids.popleft(), "", None))
            answer["details"] = self._details(usage) | {"prefill": [], "tokens": tokens}
            if self._shown.get("top_tokens"):
                answer["details"]["top_tokens"] = [[token] for token in tokens]
        return _json([answer] if self._shown.get("is_list") else answer)

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        self._text += text
        if self.details is not None:
            self._ids.extend(self.details.take_ids(index))
        if logprobs is not None:
            return "".join(self._event(self._token(each)) for each in logprobs)
        if not text:
            return ""
        last = self._ids[-1] if self._ids else 0
        self._ids.clear()
        return self._event(_token(last, text, None))

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        self._end(reason, stop_string)
        return ""

    def end(self, usage: Usage) -> str:
        if self.details is not None:
            self._ids.extend(self.details.take_ids(0))
        last = self._ids[-1] if self._ids else 0
        token = {**_token(last, "", None), "special": True}
        text = self._shown.get("prefix", "") + self._text
        return self._event(
            token, text, self._details(usage) | {"input_length": usage.prompt_tokens}
        )

    def _end(self, reason: FinishReason, stop_string: str | None) -> None:
        ending = "stop_sequence" if stop_string is not None else "eos_token"
        self._ending = _FINISH_REASONS.get(reason, ending)

    def _details(self, usage: Usage) -> dict[str, Any]:
        return {
            "finish_reason": self._ending,
            "generated_tokens": usage.completion_tokens,
            "seed": self._shown.get("seed"),
        }

    def _token(self, token: TokenLogprob) -> dict[str, Any]:
        return _token(self._ids.popleft() if self._ids else 0, token.token, token.logprob)

    def _event(
        self,
        token: Mapping[str, Any],
        text: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> str:
        self._count += 1
        if text is None and details is None and not self._shown.get("top_tokens"):
            # One of many: written by hand, it takes a third of the time.
            return (
                f'data:{{"index":{self._count},"token":{{"id":{token["id"]}'
                f',"text":{quote(token["text"])},"logprob":{token["logprob"]!r},"special":false}}'
                f',"generated_text":null,"details":null}}\n\n'
            )
        event = {"index": self._count, "token": token, "generated_text": text, "details": details}
        if self._shown.get("top_tokens"):
            event["top_tokens"] = [token]
        return f"data:{_json(event)}\n\n"


def _token(token_id: int, text: str, logprob: float | None) -> dict[str, Any]:
    known = logprob if logprob is not None and -1e9 < logprob <= 0 else 0.0
    return {"id": token_id, "text": text, "logprob": known, "special": False}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
