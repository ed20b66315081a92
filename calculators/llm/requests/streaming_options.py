"""``stream`` and ``stream_options``: streamed answers, and usage at their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.requests import fields
from calculators.requests.members import Members, honoured, table
from calculators.requests.readers import BOOLEAN, Object
from calculators.requests.schema import ref

_KNOWN: Final = ("include_usage", "include_obfuscation")

STREAMING_MEMBERS: Final[Members] = table(
    honoured("stream", BOOLEAN, "Answer with server-sent events."),
    honoured("stream_options", Object(ref("StreamOptions"))),
)


@dataclass(frozen=True, slots=True)
class StreamingOptions:
    """The resolved options; ``include_usage`` is true only with ``stream``."""

    stream: bool = False
    include_usage: bool = False


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
    for name in options:
        if name not in _KNOWN:
            raise fields.invalid(
                "stream_options", f'{fields.describe(name)} is not known; "include_usage" is'
            )
    # Padding hides the lengths of events from observers of the connection; none is sent.
    fields.boolean(options, "include_obfuscation", "stream_options.include_obfuscation")
    return StreamingOptions(
        stream, bool(fields.boolean(options, "include_usage", "stream_options.include_usage"))
    )
