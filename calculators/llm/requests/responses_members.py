"""The members of requests to ``/responses``."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.choices import N
from calculators.llm.requests.generation_members import GENERATING
from calculators.llm.requests.logprobs import CHAT_LOGPROBS_MEMBERS
from calculators.llm.requests.request_limits import LIMITS
from calculators.llm.requests.sampling import max_tokens_member
from calculators.llm.requests.stop_conditions import stop_member
from calculators.llm.requests.template_arguments import EFFORT, TEMPLATE_MEMBERS, VERBOSITY
from calculators.llm.requests.tools import TOOL_MEMBERS
from calculators.requests.members import Members, honoured, ignored, refused, table
from calculators.requests.readers import BOOLEAN, COUNT, STRING, Array, Choice, Object, Value
from calculators.requests.schema import anything, array, one_of, ref, request, string

#: Only the effort has an effect; a summary is not made.
REASONING: Final = ("effort", "summary", "generate_summary", "context", "mode")
TEXT: Final = ("format", "verbosity")

RESPONSES_MEMBERS: Final[Members] = table(
    GENERATING,
    TEMPLATE_MEMBERS,
    TOOL_MEMBERS,
    CHAT_LOGPROBS_MEMBERS,
    honoured("n", N, "There is one answer.", maximum=1),
    honoured(
        "input",
        Value(
            one_of(
                string(minLength=1),
                array(ref("InputItem"), minItems=1, maxItems=LIMITS.max_messages),
            )
        ),
        is_required=True,
    ),
    honoured("instructions", STRING, "The first message to the model."),
    honoured(
        "stream_options",
        Object(request({"include_obfuscation": {}}, additionalProperties=False)),
    ),
    max_tokens_member("max_output_tokens"),
    stop_member("stop"),
    honoured("include", Array(string()), "`message.output_text.logprobs` has an effect."),
    honoured(
        "text",
        Object(
            request(
                dict(zip(TEXT, (ref("TextFormat"), VERBOSITY.schema("")), strict=True)),
                additionalProperties=False,
            )
        ),
    ),
    honoured(
        "reasoning",
        Object(
            request(
                {
                    **{name: {} for name in REASONING},
                    "effort": EFFORT.schema(""),
                    "summary": string(),
                },
                additionalProperties=False,
            )
        ),
        "Only the effort has an effect.",
    ),
    honoured("tool_choice", Value(one_of(ref("ToolChoice"), ref("AllowedTools")))),
    honoured("max_tool_calls", COUNT, "Changes nothing."),
    honoured("truncation", Choice(("auto", "disabled")), "Changes nothing."),
    honoured("store", BOOLEAN, "Changes nothing: nothing is stored."),
    honoured("metadata", Object(anything()), "The answer repeats it."),
    honoured("prompt_cache_key", STRING, "The answer repeats it."),
    honoured("safety_identifier", STRING, "The answer repeats it."),
    ignored("changes nothing: the conversation is taken whole", "context_management"),
    refused(
        "is not supported: no response is stored; send the earlier items as input",
        "previous_response_id",
    ),
    refused(
        "is not supported: no conversation is stored; send the earlier items as input",
        "conversation",
    ),
    refused(
        "is not supported: no prompt template is stored; send instructions and input", "prompt"
    ),
    refused("is not supported: a response is not made in the background; use stream", "background"),
    refused("is not one of responses; use max_output_tokens", "max_tokens"),
)
