"""The members of requests to Anthropic's ``/messages`` and ``/messages/count_tokens``."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.choices import N
from calculators.llm.requests.generation_members import EVERYWHERE, GENERATING
from calculators.llm.requests.request_limits import LIMITS
from calculators.llm.requests.sampling import max_tokens_member
from calculators.llm.requests.stop_conditions import stop_member
from calculators.llm.requests.template_arguments import TEMPLATE_MEMBERS
from calculators.requests.members import Member, Members, honoured, ignored, refused, table
from calculators.requests.readers import COUNT, Array, Choice, Object, Value
from calculators.requests.schema import (
    Schema,
    anything,
    array,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    word,
)

ANTHROPIC_EFFORT: Final = Choice(("low", "medium", "high", "xhigh", "max"))
#: The types of ``thinking``, and whether the model thinks.
THINKS: Final = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
THINKING: Final[dict[str, Schema]] = {
    "type": word(THINKS),
    "budget_tokens": nullable(COUNT.schema("")),
    "display": {"description": "`omitted` leaves out what the model thinks."},
    "block_binding": {},
}
#: A budget of a whole task is for whoever runs the task.
OUTPUT_CONFIG: Final[dict[str, Schema]] = {
    "effort": ANTHROPIC_EFFORT.schema(""),
    "format": {},
    "task_budget": {},
}


def _output_config(**more: Schema) -> Member:
    form = request({**OUTPUT_CONFIG, **more}, additionalProperties=False)
    return honoured("output_config", Object(form))


_CONVERSATION: Final[Members] = table(
    honoured(
        "messages",
        Value(array(ref("MessageParam"), minItems=1, maxItems=LIMITS.max_messages)),
        is_required=True,
    ),
    honoured("system", Value(one_of(string(), array(ref("TextBlock"))))),
    honoured("tools", Array(ref("MessageTool"), {"maxItems": LIMITS.max_tools})),
    honoured("tool_choice", Value(ref("MessageToolChoice"))),
    honoured("thinking", Object(record(THINKING, additionalProperties=False))),
    TEMPLATE_MEMBERS,
)
_CALLER: Final[Members] = table(
    ignored("is about caches; prefixes are cached without being asked", "cache_control"),
    ignored("is a header in Anthropic's API", "betas anthropic_beta anthropic_version"),
    ignored("changes nothing: the conversation is taken whole", "context_management"),
    ignored("is about how soon an answer comes", "speed"),
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "metadata service_tier user_profile_id workspace_id billing_policy diagnostics "
        "fallback_credit_token",
    ),
    ignored("changes nothing: no other model answers instead", "fallbacks"),
    refused("is not supported: the model runs where this server runs", "inference_geo"),
)


def _only_null(name: str) -> Member:
    """A member that the parser refuses in Anthropic's own words."""
    form: Schema = {"type": "null", "description": "Nothing is stored or run here."}
    return honoured(name, Value(form))


MESSAGES_MEMBERS: Final[Members] = table(
    GENERATING,
    _CONVERSATION,
    _CALLER,
    max_tokens_member(is_required=True),
    honoured("n", N, "There is one answer.", maximum=1),
    stop_member("stop_sequences"),
    _output_config(format=ref("TextFormat")),
    honoured("output_format", Object(ref("TextFormat"))),
    refused("is not one of Anthropic's; use stop_sequences", "stop"),
    honoured("mcp_servers", Array(anything(), {"maxItems": 0})),
    *map(_only_null, ("thread", "compaction", "container")),
)
COUNT_TOKENS_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    _CONVERSATION,
    _CALLER,
    _output_config(),
    ignored("does not change how many tokens there are", "output_format mcp_servers"),
    refused("is not supported", "compaction"),
)
