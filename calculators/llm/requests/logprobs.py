"""Members that ask for the log-probabilities of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, table
from calculators.kit.requests.readers import BOOLEAN, Choice, Integer
from calculators.llm.requests.request_limits import RequestLimits

#: The item of ``include`` in a responses request that asks for log-probabilities.
_INCLUDED_LOGPROBS: Final = "message.output_text.logprobs"
#: The item that asks for reasoning as an opaque text.
SEALED_REASONING: Final = "reasoning.encrypted_content"
#: All items of OpenAI's ``include``. The others are about items that no answer has here.
INCLUDES: Final = (
    _INCLUDED_LOGPROBS,
    SEALED_REASONING,
    "message.input_image.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
_INCLUDE: Final = Choice(INCLUDES)

CHAT_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured("logprobs", BOOLEAN, "Each token comes with its log-probability."),
    honoured("top_logprobs", Integer(maximum=20), "Only the chosen token's is known.", maximum=0),
)
COMPLETION_LOGPROBS_MEMBERS: Final[Members] = table(
    honoured(
        "logprobs",
        Integer(maximum=1),
        "0: with the log-probability of each token; 1 repeats it under `top_logprobs`.",
    ),
)
#: The members that `read_logprobs` reads; without them there are none.
LOGPROBS_NAMES: Final = frozenset({"logprobs", "top_logprobs", "include"})


def read_logprobs(body: Mapping[str, Any], limits: RequestLimits) -> bool:
    """Return True if a checked body asks for log-probabilities; a completion request's 0 does.

    Raises:
        RequestError: this model has none, or the body asks for those of tokens not chosen.
    """
    asked = body.get("logprobs", False)
    wanted = asked is not False
    for i, name in enumerate(body.get("include", ())):
        wanted |= _INCLUDE.read(name, f"include[{i}]") == _INCLUDED_LOGPROBS
    top = body.get("top_logprobs")
    if top and not wanted:
        raise fields.invalid("top_logprobs", f"{top} needs logprobs to be true")
    if top:
        raise fields.invalid(
            "top_logprobs", f"{top} is not supported: only the chosen token's is known; use 0"
        )
    if wanted and not limits.has_logprobs:
        raise fields.invalid(
            "include" if asked is False else "logprobs",
            "this model is served one request at a time (pipeline_type LM or VLM), where "
            "log-probabilities are not known; leave it out",
        )
    return wanted
