"""The payload that an HTTP front puts into a graph, and the error that answers a request.

The streams carry it under the tags ``HTTP_REQUEST_PAYLOAD`` (an `HttpPayload`) and
``HTTP_RESPONSE_PAYLOAD`` (``str`` or ``bytes``: the body of a unary answer, or the events of a
stream, each ``data: ...`` with its blank line), as in OpenVINO Model Server. An answer that is
neither JSON nor events is an `calculators.kit.requests.http_answer.HttpAnswer`. No transport here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from calculators.kit.requests.request_record import RequestRecord, current_record
from graphrt_base.errors import Code, GraphError

if TYPE_CHECKING:
    from graph_runtime import FamilySettings


@dataclass(frozen=True, slots=True)
class FormFile:
    """One uploaded file.

    Attributes:
        filename: as the client wrote it, for messages and for the kind of the file only: it may be
            empty or have slashes.
        content_type: its media type in lower case, without parameters; "" if the client sent none.
        content: its bytes.
    """

    filename: str
    content_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MultipartForm:
    """A form. A name may occur several times; values keep the order of the body.

    Attributes:
        fields: texts by name, among them ``model``.
        files: uploads by name.
    """

    fields: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, list[FormFile]] = field(default_factory=dict)


#: From the first quotation mark to the last: a quoted text may contain some itself.
_QUOTED: Final = re.compile(r"""(?<!\w)["'`](?:.*["'`]|.*$)""", re.DOTALL)


def without_values(text: str) -> str:
    """An error's text for the log, without quotations and without the part after a colon.

    Those parts may repeat what a client sent; numbers stay.
    """
    return _QUOTED.sub('"..."', text.partition(":")[0])


class RequestError(GraphError):
    """The request cannot be answered; the text is for the client.

    Attributes:
        param: path of the field at fault, ``messages[2].content``; None if no field is.
        code: INVALID_ARGUMENT by default; RESOURCE_EXHAUSTED if a queue is full, UNAVAILABLE if the
            engine or handler is down, DEADLINE_EXCEEDED, UNIMPLEMENTED, NOT_FOUND.
        retry_after: seconds after which a retry makes sense; None if it does not.
        reason: a word for programs, such as "thread_unsupported_request", where an API has one.
        detail: text for the log, without anything that the client sent; "" if the text may
            repeat that.
        node: the node of an author that set the value at fault: the text is for the log, and the
            client gets an internal error with this name. None: no node did.
    """

    code = Code.INVALID_ARGUMENT

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: Code | None = None,
        retry_after: float | None = None,
        reason: str | None = None,
        detail: str = "",
        node: str | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.detail = detail
        self.node = node
        self.param = param
        self.retry_after = retry_after
        self.reason = reason


class ClientConnection(Protocol):
    """The client's connection as calculators see it."""

    @property
    def is_disconnected(self) -> bool:
        """True from the moment the peer is known to be gone; no one reads the answer then."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, on the event loop, when the peer goes; now if it has gone."""

    @property
    def is_writable(self) -> bool:
        """True if the client has read enough of the answer to get more, and if it is gone."""

    async def writable(self) -> None:
        """Return when `is_writable`."""


class NoClient:
    """A client that is always connected and writable, for tests and calls from Python."""

    is_disconnected = False
    is_writable = True

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        return

    async def writable(self) -> None:
        return


class Messages(Protocol):
    """The messages of a WebSocket's client. The packets of the response stream go to it."""

    async def receive(self) -> str | bytes | None:
        """Return the next message; None once the client has closed. One task may wait at a time.

        Raises:
            RequestError: DEADLINE_EXCEEDED, the client sends nothing for too long.
        """


class Documents(Protocol):
    """The documents that a request names and does not contain, as far as its client may read them.

    Attributes:
        settings: the operator's, which say what may be fetched from the web.
    """

    @property
    def settings(self) -> FamilySettings: ...

    async def uploaded(self, file_id: str, most_bytes: int) -> FormFile:
        """Return a file that the client has uploaded, without its media type.

        Raises:
            ValueError: there is none of this client, or it has more bytes; for the client.
        """


@dataclass(frozen=True, slots=True)
class WebDocuments:
    """The `Documents` of clients of a server that keeps no files."""

    settings: FamilySettings

    async def uploaded(self, file_id: str, most_bytes: int) -> FormFile:
        raise ValueError("this server keeps no files; it does with --batch_dir, on one machine")


_STEM: Final = re.compile(r"[a-z]+_([0-9a-f]{24})[0-9a-f]{16}")


def stem_of(object_id: str) -> str:
    """Return the digits that the ids of a response and of its items have in common.

    A store finds the response of an item by them. "" for ids of other forms.
    """
    found = _STEM.fullmatch(object_id)
    return "" if found is None else found[1]


class Continued(NamedTuple):
    """The changes that a server which keeps answers has made to a request.

    Attributes:
        id: of the answer; "": any.
        earlier: the number of items at the beginning of ``input`` that are not the client's, but
            from the response or conversation that it names as ``source``, a member's name.
        echo: members of the answer about what is kept, by name; JSON values.
    """

    id: str = ""
    earlier: int = 0
    source: str = ""
    echo: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class HttpPayload:
    """One HTTP request. `dataclasses.replace` makes a changed copy.

    Attributes:
        uri: path and query as sent, ``/v3/chat/completions``.
        headers: names in lower case.
        body: the body as sent; empty for a form, whose bytes are in ``form``.
        parsed_json: the parsed body, or None when it is not JSON.
        client: reports when the peer goes, and when it is slow.
        record: the request's record, to be filled in by calculators; by default the current one.
        form: the parsed body of a ``multipart/form-data`` request, else None.
        method: POST, or another method that the endpoint has.
        messages: what the client of a WebSocket sends; None for every other request. Each ``str``
            or ``bytes`` packet is a message to it, and the run's end closes it.
        documents: what the request names by ids and addresses; None: it can name none here.
        continued: how it goes on from earlier answers, which its body contains already.
    """

    uri: str
    headers: Mapping[str, str]
    body: bytes = b""
    parsed_json: Any = None
    client: ClientConnection = field(default_factory=NoClient)
    record: RequestRecord | None = field(default_factory=current_record, repr=False)
    form: MultipartForm | None = None
    method: str = "POST"
    messages: Messages | None = None
    documents: Documents | None = field(default=None, repr=False)
    continued: Continued = field(default=Continued(), repr=False)

    def json(self) -> Any:
        """Return the parsed body.

        Raises:
            RequestError: it is not JSON.
        """
        if self.parsed_json is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        return self.parsed_json
