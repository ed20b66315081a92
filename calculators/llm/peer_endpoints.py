"""The endpoints of language models that other servers brought, beside the large APIs.

See `calculators.llm.endpoint` for what a declaration is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.tasks.endpoint import ErrorForm
from calculators.llm.endpoint import Generating, LlmEndpoint, events_of

if TYPE_CHECKING:
    from calculators.kit.requests.schema import Schema


@cache
def _llama_cpp_completion() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.llama_cpp.completion_request import (
        COMPLETION_MEMBERS_OF_LLAMA_CPP,
        parse_llama_cpp_completion,
    )

    return Generating(
        members=COMPLETION_MEMBERS_OF_LLAMA_CPP,
        parse=parse_llama_cpp_completion,
        api=Api.LLAMA_CPP_COMPLETION,
    )


@cache
def _infill() -> Generating[Any]:
    from calculators.language.generation_request import Api
    from calculators.llm.api.llama_cpp.completion_request import (
        INFILL_MEMBERS,
        parse_infill_request,
    )

    return Generating(members=INFILL_MEMBERS, parse=parse_infill_request, api=Api.INFILL)


def _llama_cpp_schemas() -> Mapping[str, Schema]:
    from calculators.llm.openapi.llama_cpp_schemas import LLAMA_CPP_SCHEMAS

    return LLAMA_CPP_SCHEMAS


_LLAMA_CPP: Final[Mapping[str, Any]] = {
    "prefixes": ("",),
    "error_form": ErrorForm.LLAMA_CPP,
    "needs_model": False,
    "tag": "llama.cpp",
    "schemas": _llama_cpp_schemas,
}
LLAMA_CPP_COMPLETION: Final = LlmEndpoint(
    path="/completion",
    streams=True,
    events_of=partial(events_of, path="/completion"),
    operation="text_completion",
    handling=_llama_cpp_completion,
    id="llamaCppCompletion",
    summary="Go on with a text",
    request="LlamaCppCompletionRequest",
    response="LlamaCppAnswer",
    event="LlamaCppCompletion",
    examples={"a_text": {"prompt": "Hello", "n_predict": 20}},
    **_LLAMA_CPP,
)
INFILL: Final = LlmEndpoint(
    path="/infill",
    streams=True,
    events_of=partial(events_of, path="/infill"),
    operation="text_completion",
    handling=_infill,
    id="infill",
    summary="Complete code between two texts",
    request="InfillRequest",
    response="LlamaCppAnswer",
    event="LlamaCppCompletion",
    **_LLAMA_CPP,
)

PEERS: Final = (LLAMA_CPP_COMPLETION, INFILL)
