"""The events of a streamed response, each with its members."""

from __future__ import annotations

from typing import Final

from calculators.requests.schema import (
    Members,
    Schema,
    array,
    integer,
    one_of,
    ref,
    string,
    tagged,
)

_WHOLE: Final[Members] = {"response": ref("ResponseObject")}
_ITEM: Final[Members] = {"output_index": integer(minimum=0), "item": ref("OutputItem")}
_PLACE: Final[Members] = {"item_id": string(), "output_index": integer(minimum=0)}
_TEXT: Final[Members] = {**_PLACE, "content_index": integer(minimum=0)}
_SUMMARY: Final[Members] = {**_PLACE, "summary_index": integer(minimum=0)}
_LOGPROBS: Final[Members] = {"logprobs": array(ref("TokenLogprob"))}

#: What each has besides its type and its number, which goes up by one from 0.
_EVENTS: Final[dict[str, Members]] = {
    "created": _WHOLE,
    "in_progress": _WHOLE,
    "completed": _WHOLE,
    "incomplete": _WHOLE,
    "failed": _WHOLE,
    "output_item.added": _ITEM,
    "output_item.done": _ITEM,
    "content_part.added": {**_TEXT, "part": ref("OutputTextPart")},
    "content_part.done": {**_TEXT, "part": ref("OutputTextPart")},
    "output_text.delta": {**_TEXT, "delta": string(), **_LOGPROBS},
    "output_text.done": {**_TEXT, "text": string(), **_LOGPROBS},
    "reasoning_summary_part.added": {**_SUMMARY, "part": ref("SummaryPart")},
    "reasoning_summary_part.done": {**_SUMMARY, "part": ref("SummaryPart")},
    "reasoning_summary_text.delta": {**_SUMMARY, "delta": string()},
    "reasoning_summary_text.done": {**_SUMMARY, "text": string()},
    "function_call_arguments.delta": {**_PLACE, "delta": string()},
    "function_call_arguments.done": {**_PLACE, "name": string(), "arguments": string()},
}


def _named(kind: str) -> str:
    """``output_text.delta``: ResponseOutputTextDelta."""
    return "Response" + kind.replace(".", "_").title().replace("_", "")


RESPONSES_EVENT_SCHEMAS: Final[dict[str, Schema]] = {
    "ResponseEvent": one_of(*(ref(_named(kind)) for kind in _EVENTS)),
    **{
        _named(kind): tagged(f"response.{kind}", {"sequence_number": integer(minimum=0), **members})
        for kind, members in _EVENTS.items()
    },
}
