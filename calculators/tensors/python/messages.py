"""The messages between the server and a handler's process: one answer for each question.

Values travel as a header that describes them, and raw bytes. A frame with data is a byte that no
message begins with, the header's length in three bytes, the header, which is a message, and the
pieces of data, each at a multiple of `ALIGNMENT` so that arrays can be read in place. A frame
without data is a message.

The system copies long data twice: out of the memory of one side, and into that of the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from calculators.kit.child_process.framing import MAX_FRAME, Frame, Piece
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild, plain
from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import FormFile, HttpPayload, MultipartForm, RequestError
from calculators.tensors.python.instance import HandlerError, HandlerSettings, HandlerTurn
from calculators.tensors.python.pyovms import Tensor
from graphrt_base.errors import Code

ALIGNMENT: Final = 16
#: A first byte that MessagePack never uses.
_MARK: Final = 0xC1
_FRONT: Final = 4


class TensorHead(msgspec.Struct, frozen=True, tag="tensor", array_like=True):
    """A `Tensor` without its data.

    Attributes:
        dtype: NumPy's type of the data.
        data_shape: shape of the data.
        shape: the tensor's declared shape, if that differs.
        size: size of the data in bytes.
    """

    name: str
    datatype: str
    dtype: str
    data_shape: tuple[int, ...]
    shape: tuple[int, ...] | None
    size: int


class FileHead(msgspec.Struct, frozen=True, array_like=True):
    """A `FormFile` without its content; ``name`` is its name in the form."""

    name: str
    filename: str
    content_type: str
    size: int


class RequestHead(msgspec.Struct, frozen=True, tag="request", array_like=True):
    """An `HttpPayload` as pieces of data.

    The pieces are JSON of ``[uri, headers, method, fields of the form]``, the body, the parsed JSON
    and the contents of the form's files. ``json_size`` is None without parsed JSON, ``files``
    without a form.
    """

    front_size: int
    body_size: int
    json_size: int | None
    files: tuple[FileHead, ...] | None = None


class AnswerHead(msgspec.Struct, frozen=True, tag="answer", array_like=True):
    """An `HttpAnswer` without its body."""

    content_type: str
    headers: dict[str, str]
    has_more: bool
    size: int


class TextHead(msgspec.Struct, frozen=True, tag="text", array_like=True):
    size: int


class BytesHead(msgspec.Struct, frozen=True, tag="bytes", array_like=True):
    size: int


Head = TensorHead | RequestHead | AnswerHead | TextHead | BytesHead


class UnsupportedPayloadError(Exception):
    """A value cannot be passed to another process; the text names it."""


def packed(value: Any) -> tuple[Head, list[Piece]]:
    """Return the head that describes a value, and its data, not copied if contiguous.

    Raises:
        UnsupportedPayloadError: the value is not a tensor of plain elements, an HTTP request, an
            `HttpAnswer`, ``str`` or ``bytes``.
    """
    if isinstance(value, Tensor):
        return _packed_tensor(value)
    if isinstance(value, HttpPayload):
        if value.messages is not None:
            raise UnsupportedPayloadError("a WebSocket")
        return _packed_request(value)
    if isinstance(value, HttpAnswer):
        head = AnswerHead(value.content_type, dict(value.headers), value.has_more, len(value.body))
        return head, [value.body]
    if isinstance(value, str):
        # A text of Python may hold half of a surrogate pair, and the reader is Python too.
        text = value.encode("utf-8", "surrogatepass")
        return TextHead(len(text)), [text]
    if isinstance(value, bytes):
        return BytesHead(len(value)), [value]
    raise UnsupportedPayloadError(type(value).__name__)


def joined(header: bytes, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of a frame."""
    front = bytes((_MARK,)) + len(header).to_bytes(_FRONT - 1, "little") + header
    made: list[Piece] = [front, bytes(-len(front) % ALIGNMENT)]
    for piece in pieces:
        made += (piece, bytes(-len(piece) % ALIGNMENT))
    return made


def message_of(frame: Frame) -> memoryview:
    """Return the message of a frame with or without data."""
    if frame[0] != _MARK:
        return memoryview(frame)
    length = int.from_bytes(frame[1:_FRONT], "little")
    return memoryview(frame)[_FRONT : _FRONT + length]


def unpacked(frame: Frame, heads: Sequence[Head]) -> list[Any]:
    """Return the values that its header describes; arrays are views of the frame."""
    data = _Data(frame)
    return [_unpacked(head, data) for head in heads]


class _Data:
    """The pieces of a frame, one after the other."""

    def __init__(self, frame: Frame) -> None:
        self._view = memoryview(frame)
        self._at = _FRONT + len(message_of(frame))

    def take(self, size: int) -> memoryview:
        begin = self._at + -self._at % ALIGNMENT
        self._at = begin + size
        return self._view[begin : self._at]


def _packed_tensor(tensor: Tensor) -> tuple[Head, list[Piece]]:
    data = np.asarray(tensor)
    if data.dtype.hasobject or data.dtype.names is not None:
        raise UnsupportedPayloadError(f'the tensor "{tensor.name}" of {data.dtype}')
    head = TensorHead(
        tensor.name,
        tensor.datatype,
        data.dtype.str,
        data.shape,
        None if tensor.shape == data.shape else tensor.shape,
        data.nbytes,
    )
    if not data.nbytes:
        return head, [b""]
    return head, [np.ascontiguousarray(data).reshape(-1).view(np.uint8).data]


def _packed_request(payload: HttpPayload) -> tuple[Head, list[Piece]]:
    form = payload.form
    fields = None if form is None else dict(form.fields)
    # JSON can hold the halves of surrogate pairs that headers and texts may have.
    front = json.dumps([payload.uri, dict(payload.headers), payload.method, fields]).encode()
    if form is not None:
        uploads = [(name, each) for name, files in form.files.items() for each in files]
        files = tuple(
            FileHead(name, each.filename, each.content_type, len(each.content))
            for name, each in uploads
        )
        head = RequestHead(len(front), len(payload.body), None, files)
        return head, [front, payload.body, *(each.content for _, each in uploads)]
    if payload.parsed_json is None:
        return RequestHead(len(front), len(payload.body), None), [front, payload.body]
    try:
        text = json.dumps(payload.parsed_json).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsupportedPayloadError(
            f"an HTTP request whose JSON cannot be written: {error}"
        ) from None
    head = RequestHead(len(front), len(payload.body), len(text))
    return head, [front, payload.body, text]


def _unpacked(head: Head, data: _Data) -> Any:
    if isinstance(head, TensorHead):
        dtype = np.dtype(head.dtype)
        raw = data.take(head.size)
        array: Any
        if head.size:
            array = np.frombuffer(raw, dtype).reshape(head.data_shape)
        else:
            array = np.empty(head.data_shape, dtype)
        return Tensor(head.name, array, head.shape, head.datatype)
    if isinstance(head, RequestHead):
        uri, headers, method, fields = json.loads(bytes(data.take(head.front_size)))
        body = bytes(data.take(head.body_size))
        parsed = None if head.json_size is None else json.loads(bytes(data.take(head.json_size)))
        form = None if head.files is None else MultipartForm(fields, _files(head.files, data))
        return HttpPayload(uri, headers, body, parsed, form=form, method=method)
    if isinstance(head, AnswerHead):
        return HttpAnswer(
            bytes(data.take(head.size)), head.content_type, head.headers, head.has_more
        )
    raw = data.take(head.size)
    return str(raw, "utf-8", "surrogatepass") if isinstance(head, TextHead) else bytes(raw)


def _files(heads: Sequence[FileHead], data: _Data) -> dict[str, list[FormFile]]:
    files: dict[str, list[FormFile]] = {}
    for head in heads:
        upload = FormFile(head.filename, head.content_type, bytes(data.take(head.size)))
        files.setdefault(head.name, []).append(upload)
    return files


# To the process -----------------------------------------------------------------------------------


class Execute(msgspec.Struct, frozen=True, tag="execute", array_like=True):
    """Request for `PythonHandler.execute`; the frame has the inputs.

    Answer: `Yielded` or `HandlerFailed`.
    """

    key: int
    inputs: list[Head]


class Next(msgspec.Struct, frozen=True, tag="next", array_like=True):
    """Request for `PythonHandler.next`. Answer: `Yielded` or `HandlerFailed`."""

    key: int


class EndGenerator(msgspec.Struct, frozen=True, tag="end", array_like=True):
    """Request for `PythonHandler.end`. Answer: `GeneratorEnded`."""

    key: int


# From the process ---------------------------------------------------------------------------------


class HandlerReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The handler is loaded."""


class Yielded(msgspec.Struct, frozen=True, tag="gave", array_like=True):
    """A `HandlerTurn`; the frame has the data of the outputs."""

    streams: list[str]
    values: list[Head]
    is_generating: bool


class HandlerFailed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """The `RequestError` that a call raised. ``is_handlers``: it is a `HandlerError`."""

    message: str
    code: str
    is_handlers: bool
    param: str | None
    retry_after: float | None
    reason: str | None

    @classmethod
    def of(cls, error: RequestError) -> HandlerFailed:
        return cls(
            plain(str(error)),
            error.code.value,
            isinstance(error, HandlerError),
            None if error.param is None else plain(error.param),
            error.retry_after,
            None if error.reason is None else plain(error.reason),
        )

    @property
    def error(self) -> RequestError:
        kind = HandlerError if self.is_handlers else RequestError
        return kind(
            self.message,
            param=self.param,
            code=Code(self.code),
            retry_after=self.retry_after,
            reason=self.reason,
        )


class GeneratorEnded(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """A generator is closed."""


encode: Final = msgspec.msgpack.Encoder().encode
_to_process: Final[
    msgspec.msgpack.Decoder[HandlerSettings | Execute | Next | EndGenerator | StopChild]
] = msgspec.msgpack.Decoder(HandlerSettings | Execute | Next | EndGenerator | StopChild)
_from_process: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(
    HandlerReady | LoadingPhase | LoadFailed | Yielded | HandlerFailed | GeneratorEnded | Log
)


def frame_of(message: Execute | Yielded, pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces of the frame with a message and the data that it describes.

    Raises:
        UnsupportedPayloadError: the frame is too large, or has a name or number that no message
            can hold.
    """
    try:
        frame = joined(encode(message), pieces)
    except (UnicodeEncodeError, OverflowError):
        raise UnsupportedPayloadError(
            "a name that is not Unicode, or a size beyond 64 bits"
        ) from None
    size = sum(map(len, frame))
    if size > MAX_FRAME:
        raise UnsupportedPayloadError(f"{size} bytes at a time (at most {MAX_FRAME})")
    return frame


def decode_question(frame: Frame) -> HandlerSettings | Execute | Next | EndGenerator | StopChild:
    """Decode a frame that came to the process."""
    return _to_process.decode(message_of(frame))


def decode_answer(frame: Frame) -> Any:
    """Decode a frame that came from the process; a `Yielded` becomes a `HandlerTurn`."""
    message = _from_process.decode(message_of(frame))
    if not isinstance(message, Yielded):
        return message
    values = unpacked(frame, message.values)
    return HandlerTurn(tuple(zip(message.streams, values, strict=True)), message.is_generating)
