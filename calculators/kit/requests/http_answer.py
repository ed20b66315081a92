"""`HttpAnswer`: an answer to an HTTP request with a content type of the graph's choice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE: Final = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+*-]+([ \t]*;[\x20-\x7e]*)?", re.ASCII)
#: Headers that the server writes itself.
_SERVERS: Final = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "date",
        "keep-alive",
        "server",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-request-id",
    }
)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A packet on the response stream of a graph.

    It is the first packet of an answer. Without ``has_more`` it is the whole answer. With it, the
    answer is sent in chunks: ``body`` is the first, and further ``bytes`` packets are the next ones
    until the graph ends. If the graph fails after the first chunk, the connection is closed, which
    the client notices; an answer of ``text/event-stream`` ends with an error event instead.

    Attributes:
        body: bytes, unchanged to the client.
        content_type: a media type, ``audio/wav``.
        headers: further headers of the answer.

    Raises:
        ValueError: the content type is none, or a header cannot be sent or is the server's own.
    """

    body: bytes = field(repr=False)
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    has_more: bool = False

    def __post_init__(self) -> None:
        if _MEDIA_TYPE.fullmatch(self.content_type) is None:
            raise ValueError(f"{self.content_type!r} is not a content type")
        for name, value in self.headers.items():
            if _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
                raise ValueError(f"the header {name!r} cannot be sent")
            if name.lower() in _SERVERS:
                raise ValueError(f"the server writes the header {name} itself")

    @property
    def media_type(self) -> str:
        """The content type in lower case, without parameters."""
        return self.content_type.partition(";")[0].strip().lower()


#: A packet on the response stream of a graph.
ResponsePacket: TypeAlias = str | bytes | HttpAnswer
