"""The body of ``POST /v1/batches``, declared once for the reader and for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, read_members, table
from calculators.kit.requests.readers import STRING, Choice, Integer, Value
from calculators.kit.requests.schema import anything, record, string, word
from servers.batches.objects import LEAST_SECONDS, MOST_SECONDS, WINDOW

_MOST_PAIRS: Final = 16
_LONGEST_KEY: Final = 64
_LONGEST_VALUE: Final = 512
_SECONDS: Final = Integer(minimum=LEAST_SECONDS, maximum=MOST_SECONDS)
ANCHOR: Final = "created_at"


def read_metadata(value: Any, path: str) -> dict[str, str]:
    """Return checked metadata.

    Raises:
        RequestError: it has too many pairs, or one that is too long or no text.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    if len(value) > _MOST_PAIRS:
        raise fields.invalid(path, f"more than {_MOST_PAIRS} pairs")
    for key, text in value.items():
        if not isinstance(text, str):
            raise fields.wrong_type(path, "strings as values", text)
        if len(key) > _LONGEST_KEY or len(text) > _LONGEST_VALUE:
            raise fields.invalid(
                path,
                f"a key of more than {_LONGEST_KEY} or a value of more than {_LONGEST_VALUE} "
                "characters",
            )
    return value


def read_expiry(value: Any, path: str) -> int:
    """Return the seconds of ``{"anchor": "created_at", "seconds": N}``.

    Raises:
        RequestError: it is something else.
    """
    if not isinstance(value, dict):
        raise fields.wrong_type(path, "an object", value)
    anchor = value.get("anchor")
    if anchor != ANCHOR:
        raise fields.invalid(f"{path}.anchor", f'"{ANCHOR}" is the only anchor')
    return _SECONDS.read(value.get("seconds"), f"{path}.seconds")


def seconds_of(text: str, path: str) -> int:
    """Return the seconds that a field of a form has.

    Raises:
        RequestError: it is no number, or none in the range.
    """
    digits = text.strip()
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 10
    return _SECONDS.read(int(digits) if is_number else text, path)


EXPIRY_SCHEMA: Final = record(
    {"anchor": word((ANCHOR,)), "seconds": _SECONDS.schema("")}, required=("anchor", "seconds")
)
METADATA_SCHEMA: Final = anything(
    f"At most {_MOST_PAIRS} pairs of texts.",
    additionalProperties=string(maxLength=_LONGEST_VALUE),
    propertyNames={"maxLength": _LONGEST_KEY},
    maxProperties=_MOST_PAIRS,
)

BATCH_MEMBERS: Final[Members] = table(
    honoured(
        "input_file_id", STRING, "A file of purpose `batch`, a request per line.", is_required=True
    ),
    honoured("endpoint", STRING, "The path that every line names as its `url`.", is_required=True),
    honoured(
        "completion_window",
        Choice((WINDOW,)),
        "The time until the batch expires.",
        is_required=True,
    ),
    honoured("metadata", Value(METADATA_SCHEMA, read_metadata), "For the client's own use."),
    honoured(
        "output_expires_after",
        Value(EXPIRY_SCHEMA, read_expiry),
        "How long the results are kept; by default until they are deleted.",
    ),
)


class BatchCreation(Struct, frozen=True, kw_only=True):
    """A checked request for a new batch. `servers.batches.objects.Batch` describes the members."""

    input_file_id: str
    endpoint: str
    metadata: dict[str, str] | None
    output_seconds: int | None


def read_creation(body: Mapping[str, Any]) -> BatchCreation:
    """Return the request of a body.

    Raises:
        RequestError: a member is missing, unknown or wrong.
    """
    members = read_members(body, BATCH_MEMBERS)
    for name, member in BATCH_MEMBERS.items():
        if member.is_required and members.get(name) is None:
            raise fields.missing(name)
    return BatchCreation(
        input_file_id=members["input_file_id"],
        endpoint=members["endpoint"],
        metadata=members.get("metadata"),
        output_seconds=members.get("output_expires_after"),
    )
