"""Small messages of the services, without tensors."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from google.protobuf.message import DecodeError

from calculators.kit.requests.http_payload import RequestError
from protos.pool import message_class

_MAX_BYTES: Final = 64 * 1024


def parsed(full_name: str, data: bytes) -> Any:
    """Parse a message of the type ``full_name``.

    Raises:
        RequestError: ``data`` is not such a message, or is longer than 64 KiB.
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
    """Return a message of the type ``full_name`` as bytes."""
    return bytes(_class(full_name)(**fields).SerializeToString())


@cache
def _class(full_name: str) -> Any:
    return message_class(full_name)
