"""Requests to SGLang's ``/generate``: members and their reader.

The path is text-generation-inference's too: a body with ``text`` or ``input_ids`` has SGLang's
form. A request becomes a completion of the neutral form, whose members have OpenAI's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests import schema as schemas
from calculators.kit.requests.http_payload import RequestError
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
        declared.Value(schemas.one_of(_PARAMS, schemas.array(_PARAMS))),
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
