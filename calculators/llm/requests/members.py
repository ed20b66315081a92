"""The members of request bodies by endpoint, and the check of a body against them.

A member is declared once, beside the code that resolves its value: name, reader (type, bounds,
choices), description. The parser reads bodies with it, and the OpenAPI document has its schema
from it. A new member is a line in such a declaration and one where its value is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.llm.requests.endpoint import Endpoint
from calculators.llm.requests.generation_members import EVERYWHERE, GENERATING
from calculators.llm.requests.logprobs import (
    CHAT_LOGPROBS_MEMBERS,
    COMPLETION_LOGPROBS_MEMBERS,
)
from calculators.llm.requests.messages_members import COUNT_TOKENS_MEMBERS, MESSAGES_MEMBERS
from calculators.llm.requests.request_limits import LIMITS
from calculators.llm.requests.responses_members import RESPONSES_MEMBERS
from calculators.llm.requests.sampling import ECHO, max_tokens_member
from calculators.llm.requests.stop_conditions import stop_member
from calculators.llm.requests.template_arguments import TEMPLATE_MEMBERS
from calculators.llm.requests.tools import TOOL_MEMBERS
from calculators.llm.requests.unsupported import CHECKED_CHAT_MEMBERS
from calculators.requests.fields import INT32_MAX
from calculators.requests.members import (
    Members,
    Standing,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.requests.readers import BOOLEAN, TOKEN_ID, Choice, Integer, Value
from calculators.requests.schema import array, one_of, ref, string

#: Texts of one request to ``/tokenize``.
MAX_TEXTS: Final = 1024
#: Characters of all of them.
MAX_CHARACTERS: Final = 2**20

_PROMPT_TEXT: Final = string(minLength=1)
_PROMPT_IDS: Final = array(TOKEN_ID.schema(""), minItems=1)
_TOKENIZED: Final = string(maxLength=MAX_CHARACTERS)

#: All members that an endpoint knows.
MEMBERS: Final[Mapping[Endpoint, Members]] = {
    Endpoint.CHAT_COMPLETIONS: table(
        GENERATING,
        TEMPLATE_MEMBERS,
        TOOL_MEMBERS,
        CHAT_LOGPROBS_MEMBERS,
        CHECKED_CHAT_MEMBERS,
        honoured(
            "messages",
            Value(array(ref("ChatMessage"), minItems=1, maxItems=LIMITS.max_messages)),
            "The conversation.",
            is_required=True,
        ),
        max_tokens_member(),
        max_tokens_member("max_completion_tokens", "The same; it wins."),
        stop_member("stop"),
        ignored("is about how soon an answer comes", "prediction"),
        refused("is for /completions", "echo"),
        refused(
            "is not supported: the chat template writes those that are needed",
            "add_special_tokens",
        ),
    ),
    Endpoint.COMPLETIONS: table(
        GENERATING,
        COMPLETION_LOGPROBS_MEMBERS,
        honoured(
            "prompt",
            Value(
                one_of(
                    _PROMPT_TEXT,
                    array(_PROMPT_TEXT, minItems=1, maxItems=LIMITS.max_prompts),
                    _PROMPT_IDS,
                    array(_PROMPT_IDS, minItems=1, maxItems=LIMITS.max_prompts),
                )
            ),
            "A text, or the ids of its tokens; or several of either.",
            is_required=True,
        ),
        max_tokens_member(
            about="How many tokens the answer may have; 0 only with `echo`.", least=0
        ),
        stop_member("stop"),
        ECHO,
        honoured("add_special_tokens", BOOLEAN),
    ),
    Endpoint.RESPONSES: RESPONSES_MEMBERS,
    Endpoint.MESSAGES: MESSAGES_MEMBERS,
    Endpoint.COUNT_TOKENS: COUNT_TOKENS_MEMBERS,
    Endpoint.TOKENIZE: table(
        EVERYWHERE,
        honoured(
            "text",
            Value(one_of(_TOKENIZED, array(_TOKENIZED, minItems=1, maxItems=MAX_TEXTS))),
            f"All texts together have at most {MAX_CHARACTERS} characters.",
            is_required=True,
        ),
        honoured("add_special_tokens", BOOLEAN),
        honoured(
            "max_length",
            Integer(minimum=1, maximum=INT32_MAX),
            "Tokens of each text at most; the rest is cut off.",
        ),
        honoured("pad_to_max_length", BOOLEAN),
        honoured("padding_side", Choice(("left", "right"))),
    ),
}

#: What other servers and libraries call something, and what says it here.
_ELSEWHERE: Final = {
    "extra_body": "that is an argument of OpenAI's client; its members stand in the body itself",
    "max_new_tokens": 'use "max_tokens"',
    "n_predict": 'use "max_tokens"',
    "num_predict": 'use "max_tokens"',
    "random_seed": 'use "seed"',
    "think": 'use "enable_thinking", or "reasoning_effort"',
    "thinking": 'use "enable_thinking", or "reasoning_effort"',
}


def checked_members(body: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """The members of ``body`` that have an effect, as their readers return them; none is None.

    Raises:
        RequestError: with the member as ``param``; the first that ``endpoint`` does not know, else
            the first that is refused or wrong.
    """
    return read_members(body, MEMBERS[endpoint], lambda name: _hint(name, endpoint))


def _hint(name: str, endpoint: Endpoint) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    for other, members in MEMBERS.items():
        if name in members and members[name].standing is not Standing.REFUSED:
            return f"{other} has it, {endpoint} does not"
    return ""
