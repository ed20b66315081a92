"""The small messages of the services: those without tensors."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from calculators.requests.http_payload import RequestError
from protos.pool import message_class

_MAX_BYTES: Final = 64 * 1024


def parsed(full_name: str, data: bytes) -> Any:
    """The message of the type ``full_name``.

    Raises:
        RequestError: it is none, or longer than any needs to be.
    """
    kind = _class(full_name)
    name = kind.DESCRIPTOR.name
    if len(data) > _MAX_BYTES:
        raise RequestError(f"a {name} can have {_MAX_BYTES} bytes, not {len(data)}")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise RequestError(f"the request is not a {name} message") from error


def serialized(full_name: str, **fields: object) -> bytes:
    """The bytes of a message of the type ``full_name``."""
    return bytes(_class(full_name)(**fields).SerializeToString())


@cache
def _class(full_name: str) -> Any:
    return message_class(full_name)
