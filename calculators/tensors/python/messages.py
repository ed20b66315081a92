"""The messages between the server and a handler's process: one answer for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from calculators.kit.child_process.framing import MAX_FRAME, Frame, Piece
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.python.handler_error import HandlerError
from calculators.tensors.python.handler_settings import HandlerSettings
from calculators.tensors.python.instance import Turn
from calculators.tensors.python.parcel import (
    Head,
    UnsupportedPayloadError,
    joined,
    message_of,
    unpacked,
)
from graph_runtime import Code

# To the process -----------------------------------------------------------------------------------


class Execute(msgspec.Struct, frozen=True, tag="execute", array_like=True):
    """Request for `Handler.execute`; the frame has the inputs. Answer: `Yielded` or `Failed`."""

    key: int
    inputs: list[Head]


class Next(msgspec.Struct, frozen=True, tag="next", array_like=True):
    """Request for `Handler.next`. Answer: `Yielded` or `Failed`."""

    key: int


class End(msgspec.Struct, frozen=True, tag="end", array_like=True):
    """Request for `Handler.end`. Answer: `Ended`."""

    key: int


# From the process ---------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The handler is loaded."""


class Yielded(msgspec.Struct, frozen=True, tag="gave", array_like=True):
    """A `Turn`; the frame has the data of the outputs."""

    streams: list[str]
    values: list[Head]
    is_generating: bool


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """The `RequestError` that a call raised. ``is_handlers``: it is a `HandlerError`."""

    message: str
    code: str
    is_handlers: bool
    param: str | None
    retry_after: float | None
    reason: str | None

    @classmethod
    def of(cls, error: RequestError) -> Failed:
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


class Ended(msgspec.Struct, frozen=True, tag="ended", array_like=True):
    """A generator is closed."""


encode: Final = msgspec.msgpack.Encoder().encode
_to_process: Final[msgspec.msgpack.Decoder[HandlerSettings | Execute | Next | End | StopChild]] = (
    msgspec.msgpack.Decoder(HandlerSettings | Execute | Next | End | StopChild)
)
_from_process: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(
    Ready | LoadingPhase | LoadFailed | Yielded | Failed | Ended | Log
)


def plain(text: str) -> str:
    """The text without halves of surrogate pairs, which no message can hold."""
    return text.encode("utf-8", "replace").decode()


def frame_of(message: Execute | Yielded, pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of the frame with a message and the data that it describes.

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


def decode_question(frame: Frame) -> HandlerSettings | Execute | Next | End | StopChild:
    """Decode a frame that came to the process."""
    return _to_process.decode(message_of(frame))


def decode_answer(frame: Frame) -> Any:
    """Decode a frame that came from the process; a `Yielded` becomes a `Turn`."""
    message = _from_process.decode(message_of(frame))
    if not isinstance(message, Yielded):
        return message
    values = unpacked(frame, message.values)
    return Turn(tuple(zip(message.streams, values, strict=True)), message.is_generating)
