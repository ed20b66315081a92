"""Requests to ``/generate``, ``/generate_stream`` and ``/`` of text-generation-inference.

A request becomes a completion of the neutral form, whose members have OpenAI's names. As there, the
likeliest token is taken unless a member about sampling is given.
"""

from __future__ import annotations

from collections.abc import Mapping
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
