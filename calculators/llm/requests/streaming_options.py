"""``stream`` and ``stream_options``: streamed answers, and usage at their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, check_object, honoured, table
from calculators.kit.requests.readers import BOOLEAN, Object
from calculators.kit.requests.schema import const, one_of, record, ref

#: The options, with their descriptions in the OpenAPI document.
STREAM_OPTIONS: Final = {
    "include_usage": "The last event says how many tokens there were.",
    "continuous_usage_stats": "With `include_usage`: every event says how many there are so far.",
    # Padding hides the lengths of events from observers of the connection.
    "include_obfuscation": "Changes nothing: no padding is sent.",
}

STREAMING_MEMBERS: Final[Members] = table(
    honoured("stream", BOOLEAN, "Answer with server-sent events."),
    honoured(
        "stream_options",
        Object(ref("StreamOptions")),
        beside=one_of(
            record({"stream_options": const(None)}),
            record({"stream": const(True)}, required=("stream",)),
        ),
    ),
)


class StreamingOptions(Struct, frozen=True):
    """The resolved options.

    ``include_usage`` is true only with ``stream``, and ``has_running_usage`` only with both.
    """

    stream: bool = False
    include_usage: bool = False
    has_running_usage: bool = False


def read_streaming_options(body: Mapping[str, Any]) -> StreamingOptions:
    """Resolve ``stream`` and ``stream_options`` of a checked body.

    Raises:
        RequestError: options without a stream, an unknown option, or one of a wrong type.
    """
    stream: bool = body.get("stream", False)
    options = body.get("stream_options")
    if options is None:
        return StreamingOptions(stream)
    if not stream:
        raise fields.invalid("stream_options", "only allowed when stream is true")
    if not options.keys() <= STREAM_OPTIONS.keys():
        check_object(options, "stream_options", STREAM_OPTIONS)
    for name, value in options.items():
        if not (value is None or isinstance(value, bool)) and name in STREAM_OPTIONS:
            raise fields.wrong_type(f"stream_options.{name}", "true or false", value)
    usage = bool(options.get("include_usage"))
    return StreamingOptions(stream, usage, usage and bool(options.get("continuous_usage_stats")))
