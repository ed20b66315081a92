"""Schemas of the members that all generating endpoints share, as `calculators.llm` checks them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from calculators.llm.openapi.structured_schemas import STRUCTURED_MEMBERS
from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.members import MEMBERS, Member, Standing
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.template_arguments import EFFORTS, RESERVED, VERBOSITIES
from calculators.requests.fields import INT32_MAX, UINT32_MAX
from calculators.requests.schema import (
    Members,
    Schema,
    anything,
    array,
    flag,
    integer,
    number,
    one_of,
    record,
    request,
    string,
    word,
)
from calculators.tasks.operation import TIMEOUT

#: The engine computes with 32-bit floats: more than this becomes infinite.
_LARGEST: Final = math.nextafter(2.0**128 - 2.0**103, 0)
TOKEN_ID: Final = integer(minimum=0, maximum=INT32_MAX)

STREAM_OPTIONS: Final[dict[str, Schema]] = {
    "StreamOptions": request(
        {
            "include_usage": flag("The last event says how many tokens there were."),
            "include_obfuscation": flag("Changes nothing: no padding is sent."),
        },
        "Only with `stream`.",
        additionalProperties=False,
    )
}


def sampling_members(limits: RequestLimits, *, n: int | None = None) -> Members:
    """How the tokens are chosen, and what ends an answer.

    ``n``: answers at most; None: as many as the graph's options allow.
    """
    most = {} if n is None else {"maximum": n}
    many = (
        f"Answers, {limits.max_choices} at most; with `best_of` as many as that."
        if n is None
        else "There is one answer."
    )
    return {
        "temperature": number("0 always takes the likeliest token.", minimum=0, maximum=2),
        "top_p": number("Only the likeliest tokens, up to this sum.", minimum=0, maximum=1),
        "top_k": integer(
            "Only so many of the likeliest tokens; -1 is all.",
            minimum=-1,
            maximum=INT32_MAX,
            **{"not": {"const": 0}},
        ),
        "min_p": number(
            "Only tokens this likely, compared with the likeliest.", minimum=0, exclusiveMaximum=1
        ),
        "seed": integer("The same seed, the same answer.", minimum=0, maximum=UINT32_MAX),
        "frequency_penalty": number(minimum=-2, maximum=2),
        "presence_penalty": number(minimum=-2, maximum=2),
        "repetition_penalty": number(exclusiveMinimum=0, maximum=_LARGEST),
        "length_penalty": number("Of beam search.", minimum=-_LARGEST, maximum=_LARGEST),
        "n": integer(many, minimum=1, **(most or {"maximum": INT32_MAX})),
        "best_of": integer(
            f"Beams of a beam search; {limits.best_of_limit} at most unless the graph says"
            " otherwise. Not in streams.",
            minimum=1,
            maximum=UINT32_MAX,
        ),
        "min_tokens": integer(minimum=0, maximum=UINT32_MAX),
        "ignore_eos": flag("Go on until the most tokens are reached."),
        "stop_token_ids": array(TOKEN_ID, maxItems=limits.max_stop_token_ids),
        "include_stop_str_in_output": flag(),
        "skip_special_tokens": flag("False shows the text of special tokens."),
        "num_assistant_tokens": integer(minimum=0, maximum=UINT32_MAX),
        "assistant_confidence_threshold": number(minimum=0, maximum=1),
        "max_ngram_size": integer(minimum=0, maximum=UINT32_MAX),
    }


def stop_schema(limits: RequestLimits) -> Schema:
    """Texts that end an answer."""
    text = string(minLength=1, maxLength=limits.max_stop_length)
    return one_of(text, array(text, maxItems=limits.max_stop_strings), about="What ends an answer.")


def most_tokens(about: str = "How many tokens the answer may have.", *, minimum: int = 1) -> Schema:
    """A limit of tokens."""
    return integer(about, minimum=minimum, maximum=UINT32_MAX)


def common_members(limits: RequestLimits, *, n: int | None = None) -> Members:
    """What the bodies of all endpoints that generate share."""
    return {
        "model": MODEL,
        "stream": flag("Answer with server-sent events."),
        **sampling_members(limits, n=n),
        "user": string("Changes nothing."),
        "timeout": TIMEOUT,
        **STRUCTURED_MEMBERS,
    }


MODEL: Final = string("The name of a model or graph that is served.", minLength=1)

#: What a request may give to the chat template.
TEMPLATE_MEMBERS: Final[Members] = {
    "chat_template_kwargs": anything(
        "Variables of the chat template.",
        propertyNames={"not": {"enum": sorted(RESERVED)}},
        properties={"add_generation_prompt": {"type": ["boolean", "null"]}},
    ),
    "add_generation_prompt": flag(),
    "enable_thinking": flag(),
    "reasoning_effort": word(EFFORTS),
    "verbosity": word(VERBOSITIES),
    "documents": array(anything(), "What the answer is to be found in."),
}


def body_schema(endpoint: Endpoint, members: Members, *, required: Sequence[str]) -> Schema:
    """The body of a request: ``members``, what else the endpoint knows, and nothing besides."""
    body = request(
        members,
        "Null is as good as absent. Other members than these are refused.",
        required=required,
        additionalProperties=False,
    )
    for name, member in MEMBERS[endpoint].items():
        body["properties"].setdefault(name, _without_effect(member))
    return body


def _without_effect(member: Member) -> Schema:
    """A member of which no use is made, or only that of being refused."""
    match member.standing:
        case Standing.REFUSED:
            nothing: list[object] = [None, False, "", []]
            if member.may_be_empty:
                nothing.append({})
            return {"description": f"It {member.why}.", "enum": nothing}
        case Standing.WITHOUT_EFFECT:
            return {"description": f"Without effect: it {member.why}."}
        case _:
            return {}


USAGE_SCHEMAS: Final[dict[str, Schema]] = {
    "CompletionUsage": record(
        {
            "prompt_tokens": integer(minimum=0),
            "completion_tokens": integer(minimum=0),
            "total_tokens": integer(minimum=0),
            "prompt_tokens_details": record(
                {"cached_tokens": integer(minimum=0)}, required=("cached_tokens",)
            ),
            "completion_tokens_details": record(
                {"reasoning_tokens": integer(minimum=0)}, required=("reasoning_tokens",)
            ),
        },
        required=("prompt_tokens", "completion_tokens", "total_tokens"),
    ),
    "Verbose": record(
        {"prompt": string(), "content": string()},
        "Only with `--verbose_response`: the prompt, and the raw text of the answer.",
        required=("prompt", "content"),
    ),
}

FINISH_REASON: Final = word(("stop", "length", "tool_calls", "content_filter"))
