"""SGLang's API of generation: requests to ``/generate``, and their answers.

The path is text-generation-inference's too: a body with ``text`` or ``input_ids`` has SGLang's
form. A request becomes a completion of the neutral form, whose members have OpenAI's names.

Each event has the whole text of its choice so far, and all token ids. What has been written is
kept as JSON, so a token costs a copy of that, and nothing is escaped twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests import schema as schemas
from calculators.kit.requests.http_payload import RequestError
from calculators.language.delta import Begun, FinishReason, TokenLogprob, Usage
from calculators.language.events import Content, OutputEvent
from calculators.llm.answers.answer_writer import TextOnlyWriter
from calculators.llm.answers.response import DONE, IMPOSSIBLE, AnswerChoice, quote
from calculators.llm.requests.checked_request import read_body, read_generation
from calculators.llm.requests.completions_request import (
    COMPLETION_MEMBERS,
    CompletionRequest,
    read_prompts,
)
from calculators.llm.requests.model_defaults import ModelDefaults
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.sampling import SAMPLING_MEMBERS, STOP_MEMBERS, N, stop_member
from calculators.llm.requests.structured_output import STRUCTURED_MEMBERS

#: The limit of a request that sets none, and its temperature, as in SGLang.
DEFAULT_NEW_TOKENS: Final = 128
_DEFAULT_TEMPERATURE: Final = 1.0
#: Names of members in ``sampling_params``, by the names that the neutral form has.
_NAMES: Final = {
    "max_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "seed": "sampling_seed",
    "include_stop_str_in_output": "no_stop_trim",
}
_SAME: Final = (
    *("temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty"),
    *("repetition_penalty", "skip_special_tokens"),
)
_FORMS: Final = frozenset({"json_schema", "regex", "ebnf", "structural_tag"})
_PROMPTS: Final = ("text", "input_ids")

SAMPLING_PARAMS: Final[declared.Members] = declared.table(
    (SAMPLING_MEMBERS[name] for name in _SAME),
    (STRUCTURED_MEMBERS[name] for name in sorted(_FORMS)),
    (STOP_MEMBERS[name] for name in ("ignore_eos", "stop_token_ids")),
    declared.honoured(
        "max_new_tokens",
        declared.COUNT,
        f"{DEFAULT_NEW_TOKENS}. With 0 the prompt is computed for later requests.",
    ),
    declared.honoured("min_new_tokens", declared.COUNT),
    declared.honoured("sampling_seed", SAMPLING_MEMBERS["seed"].reader),
    declared.honoured("n", N, "Answers per prompt."),
    declared.honoured("no_stop_trim", declared.BOOLEAN, "The text has the stop string."),
    stop_member("stop"),
    declared.ignored(
        "changes nothing: there are only the spaces that the model writes",
        "spaces_between_special_tokens",
    ),
    declared.ignored("is for code that runs in SGLang", "custom_params stream_interval"),
    declared.refused("is not supported by this engine", "logit_bias", may_be_empty=True),
    declared.refused("is not supported; use stop", "stop_regex"),
    declared.refused("is not supported; use best_of of /completions", "beam_width"),
    declared.refused("is not supported", "watermark"),
)
_PARAMS: Final = declared.body_schema(SAMPLING_PARAMS)
GENERATE_MEMBERS: Final[declared.Members] = declared.table(
    declared.EVERYWHERE,
    declared.honoured("model", declared.STRING, "The only one that answers here, unless named."),
    declared.honoured("text", COMPLETION_MEMBERS["prompt"].reader, "A text, or several."),
    declared.honoured("input_ids", COMPLETION_MEMBERS["prompt"].reader, "Or token ids instead."),
    declared.honoured(
        "sampling_params",
        declared.Value(schemas.one_of(_PARAMS, schemas.array(_PARAMS, minItems=1))),
        "Several must be the same.",
    ),
    declared.honoured("stream", declared.BOOLEAN, "Answer with server-sent events."),
    declared.honoured("rid", declared.STRING, "The id of the answer."),
    declared.honoured("return_logprob", declared.BOOLEAN, "With log-probabilities of new tokens."),
    declared.honoured("logprob_start_len", declared.Integer(minimum=-1, maximum=-1)),
    declared.honoured(
        "top_logprobs_num",
        declared.Integer(minimum=0, maximum=0),
        "Only the chosen token's is known.",
    ),
    declared.honoured(
        "return_text_in_logprobs", declared.BOOLEAN, "Log-probabilities have the tokens' texts."
    ),
    declared.ignored(
        "says who asks, or is about how several processes of SGLang share work",
        "log_metrics priority extra_key session_id conversation_id routing_key routed_dp_rank "
        "data_parallel_rank background modalities",
    ),
    declared.refused("is not supported; name the adapter as model", "lora_path lora_id"),
    declared.refused("is not supported here: chats have media", "image_data audio_data video_data"),
    declared.refused("is not supported: prompts are text or token ids", "input_embeds"),
    declared.refused("is not supported: only the chosen token's is known", "token_ids_logprob"),
    declared.refused(
        "is not supported",
        "session_params custom_logit_processor return_hidden_states return_routed_experts "
        "return_sampling_mask",
    ),
)


class SglangRequest(CompletionRequest, frozen=True, kw_only=True):
    """A checked request."""


def is_sglangs(value: object) -> bool:
    """Return whether a parsed body of ``/generate`` has SGLang's form."""
    return isinstance(value, dict) and any(value.get(name) is not None for name in _PROMPTS)


def parse_generate_request(
    value: object, limits: RequestLimits, defaults: ModelDefaults
) -> SglangRequest:
    """Check a parsed body.

    Raises:
        RequestError: the first member that is wrong, or that asks for what is not supported.
    """
    if isinstance(value, dict) and value.get("inputs") is not None:
        raise fields.combined("inputs", "text or input_ids")
    body = read_body(value, GENERATE_MEMBERS)
    given = [name for name in _PROMPTS if body.get(name) is not None]
    if len(given) > 1:
        raise fields.combined(given[1], given[0])
    try:
        prompts = read_prompts({"prompt": body[given[0]]}, limits, least=1)
    except RequestError as error:
        raise fields.renamed(error, {"prompt": given[0]}) from None
    asked = _params(body.get("sampling_params"))
    try:
        params = declared.read_members(asked, SAMPLING_PARAMS)
        for name in params.keys() & _FORMS:
            # A form is checked again when a grammar is made of it, and keeps its place for that.
            params[name] = STRUCTURED_MEMBERS[name].read(asked[name], f"sampling_params.{name}")
        members = _members(params)
        if body.get("return_logprob"):
            members["logprobs"] = 0
        # Any name: the front knows which model is meant.
        generation = read_generation({"model": "any", **members}, defaults, limits)
    except RequestError as error:
        named = fields.renamed(error, {**_NAMES, "logprobs": "return_logprob"})
        if named.param in GENERATE_MEMBERS:
            raise named from None
        raise fields.below(named, "sampling_params") from None
    generation = structs.replace(
        generation,
        model=body.get("model", ""),
        stream=body.get("stream", False),
        returns_token_ids=True,
        limits_itself="max_new_tokens" in params,
        members=members,
    )
    shown = {
        "rid": body.get("rid"),
        "texts": body.get("return_text_in_logprobs", False),
        "only_prompt": params.get("max_new_tokens") == 0,
    }
    return SglangRequest(
        **structs.asdict(generation),
        prompts=prompts,
        logprobs=members.get("logprobs"),
        shown=shown,
    )


def _params(value: Any) -> dict[str, Any]:
    """Return ``sampling_params``, without forms that are empty texts and ask for nothing."""
    if isinstance(value, list) and value and all(each == value[0] for each in value[1:]):
        value = value[0]
    elif isinstance(value, list) and value:
        raise fields.invalid("sampling_params", "all prompts of a request must have the same")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise fields.wrong_type("sampling_params", "an object", value)
    return {name: each for name, each in value.items() if name not in _FORMS or each != ""}


def _members(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters as a completion has them."""
    here = {name: neutral for neutral, name in _NAMES.items()}
    members = {here.get(name, name): value for name, value in params.items()}
    # The engine generates at least one token, which an answer to 0 does not show.
    members["max_tokens"] = max(1, members.get("max_tokens", DEFAULT_NEW_TOKENS))
    members.setdefault("temperature", _DEFAULT_TEMPERATURE)
    return members


_NANO: Final = 1e-9
_TOKEN_BYTES: Final = 8


class _Written:
    """The text, ids and scores of a choice so far, as JSON without quotes and brackets."""

    __slots__ = ("count", "ids", "logprobs", "reason", "text")

    def __init__(self) -> None:
        self.count = 0
        self.ids = ""
        self.logprobs = ""
        self.reason = "null"
        self.text = ""


class SglangWriter(TextOnlyWriter):
    """An `AnswerWriter` of SGLang's texts."""

    __slots__ = ("_began", "_begun", "_choices", "_heads", "_prompt_tokens", "_shown")

    def __init__(self, begun: Begun) -> None:
        super().__init__(begun)
        self._began = perf_counter_ns()
        self._begun = begun
        self._shown = begun.request.echo
        self._choices = [_Written() for _ in range(begun.choices)]
        prompts = begun.prompt_ids
        self._prompt_tokens = [
            begun.usage.prompt_tokens
            if prompts is None
            else len(prompts[begun.prompt_of(index, len(prompts))]) // _TOKEN_BYTES
            for index in range(begun.choices)
        ]
        named = self._shown.get("rid") or begun.request.id
        self._heads = [
            f'"id":{quote(named if begun.choices == 1 else f"{named}_{index}")}'
            for index in range(begun.choices)
        ]

    def whole(self, choices: Sequence[AnswerChoice], usage: Usage) -> str:
        for index, choice in enumerate(choices):
            self._add(index, choice.content, choice.token_ids, choice.logprobs)
            self.finish(index, choice.finish_reason, choice.stop_string)
        answers = [f"{{{self._answer(index, usage)}}}" for index in range(len(choices))]
        return answers[0] if self._is_single else f"[{','.join(answers)}]"

    def more(
        self, index: int, events: Sequence[OutputEvent], logprobs: Sequence[TokenLogprob] | None
    ) -> str:
        text = "".join([event.text for event in events if isinstance(event, Content)])
        ids = [] if self.details is None else self.details.take_ids(index)
        if self._shown.get("only_prompt") or not (text or ids):
            return ""
        self._add(index, text, ids, logprobs)
        return self._event(index, self._begun.usage)

    def finish(self, index: int, reason: FinishReason, stop_string: str | None = None) -> str:
        choice = self._choices[index]
        if self.details is not None:
            # Tokens that made no text, as the tokens of a stop string do not.
            self._add(index, "", self.details.take_ids(index), None)
        if reason is FinishReason.LENGTH or self._shown.get("only_prompt"):
            choice.reason = f'{{"type":"length","length":{choice.count}}}'
        elif reason is FinishReason.STOP:
            # The token that ended the text is not known here.
            matched = "null" if stop_string is None else quote(stop_string)
            choice.reason = f'{{"type":"stop","matched":{matched}}}'
        else:
            choice.reason = f'{{"type":"abort","message":{quote(reason)}}}'
        return ""

    def end(self, usage: Usage) -> str:
        # Here, where the tokens are counted.
        events = [self._event(index, usage) for index in range(len(self._choices))]
        return "".join([*events, DONE])

    @property
    def _is_single(self) -> bool:
        return len(self._choices) == 1

    def _add(
        self,
        index: int,
        text: str,
        ids: Sequence[int],
        logprobs: Sequence[TokenLogprob] | None,
    ) -> None:
        if self._shown.get("only_prompt"):
            return
        choice = self._choices[index]
        choice.text += quote(text)[1:-1]
        if logprobs:
            known = [*ids, *(0 for _ in range(len(logprobs) - len(ids)))]
            written = ",".join(map(self._logprob, known, logprobs))
            choice.logprobs += f",{written}" if choice.logprobs else written
        if ids:
            written = ",".join(map(str, ids))
            choice.ids += f",{written}" if choice.count else written
            choice.count += len(ids)

    def _logprob(self, token_id: int, token: TokenLogprob) -> str:
        value = token.logprob
        known = IMPOSSIBLE if value is None or not value <= 0 else max(value, IMPOSSIBLE)
        text = quote(token.token) if self._shown.get("texts") else "null"
        return f"[{known!r},{token_id},{text}]"

    def _event(self, index: int, usage: Usage) -> str:
        place = "" if self._is_single else f',"index":{index}'
        return f"data: {{{self._answer(index, usage)}{place}}}\n\n"

    def _answer(self, index: int, usage: Usage) -> str:
        choice = self._choices[index]
        # Cached tokens are counted for the request, not for each of several answers.
        cached = usage.cached_tokens or 0 if self._is_single else 0
        logprobs = ""
        if self.wants_logprobs:
            logprobs = f',"input_token_logprobs":[],"output_token_logprobs":[{choice.logprobs}]'
        latency = ""
        if choice.reason != "null":
            latency = f',"e2e_latency":{(perf_counter_ns() - self._started) * _NANO:.6f}'
        return (
            f'"text":"{choice.text}","output_ids":[{choice.ids}],"meta_info":{{'
            f'{self._heads[index]},"finish_reason":{choice.reason}'
            f',"prompt_tokens":{self._prompt_tokens[index]},"weight_version":"default"'
            f',"completion_tokens":{choice.count},"cached_tokens":{cached}{logprobs}{latency}}}'
        )

    @property
    def _started(self) -> int:
        record = self._begun.request.record
        if record is None or not record.generations:
            return self._began
        return record.generations[-1].began
