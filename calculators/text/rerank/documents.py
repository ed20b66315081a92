"""Documents of a request to ``/v3/rerank``: strings, or objects with texts.

Error texts are OpenVINO Model Server's (``rerank/rerank_utils.cpp``), where it has the error too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.schema import Schema, anything, array, one_of, string

#: Characters of one document. It is cut into chunks that the model takes.
MAX_CHARACTERS: Final = 1024 * 1024
#: Characters of all documents of one request.
MAX_ALL_CHARACTERS: Final = 16 * 1024 * 1024
#: Fields of an object that may be joined to its text.
MAX_RANK_FIELDS: Final = 64

DOCUMENTS_SCHEMA: Final[Schema] = array(
    one_of(
        string(maxLength=MAX_CHARACTERS),
        anything("An object with ``text``, or with the members that ``rank_fields`` names."),
    ),
    minItems=1,
)
TEXTS_SCHEMA: Final[Schema] = array(string(maxLength=MAX_CHARACTERS), minItems=1)


def read_documents(value: Any, path: str) -> list[Any]:
    """Check the documents' types: at least one, all strings or all objects."""
    if not isinstance(value, list):
        raise RequestError(f"{path} is not an array", param=path)
    if not value:
        raise RequestError(f"{path} array should not be empty", param=path)
    kind = type(value[0])
    for place, document in enumerate(value):
        if not isinstance(document, str | dict):
            raise RequestError(
                f"{path} array element is neither string nor object", param=f"{path}[{place}]"
            )
        if type(document) is not kind:
            raise RequestError(
                "all documents have to be the same type (string or objects)",
                param=f"{path}[{place}]",
            )
    return value


def read_rank_fields(value: Any, path: str) -> list[str]:
    """Check names of members."""
    if not isinstance(value, list):
        raise RequestError(f"{path} is not an array", param=path)
    if len(value) > MAX_RANK_FIELDS:
        raise fields.above(path, len(value), MAX_RANK_FIELDS)
    for place, name in enumerate(value):
        if not isinstance(name, str):
            raise RequestError(f"{path} array element is not a string", param=f"{path}[{place}]")
    return value


def texts_of(documents: Sequence[Any], rank_fields: Sequence[str], path: str) -> list[str]:
    """Return the text that stands for each document.

    It is a string itself, or the member ``text`` of an object. With ``rank_fields`` it is a line
    ``name: value`` for each of these members that the object has.

    Raises:
        RequestError: an object has none of the members, or they are no strings; too long.
    """
    texts: list[str] = []
    total = 0
    for place, document in enumerate(documents):
        where = f"{path}[{place}]"
        text = document if isinstance(document, str) else _text_of(document, rank_fields, where)
        check_text(text, where, MAX_CHARACTERS)
        total += len(text)
        if total > MAX_ALL_CHARACTERS:
            raise fields.invalid(
                path, f"the characters in all are above the maximum {MAX_ALL_CHARACTERS}"
            )
        texts.append(text)
    return texts


def check_text(text: str, path: str, most: int) -> None:
    """Refuse a text of more than ``most`` characters, and one that is no Unicode."""
    if len(text) > most:
        raise fields.invalid(path, f"{len(text)} characters are above the maximum {most}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise fields.invalid(
                path, "the text is not Unicode (half of a surrogate pair)"
            ) from None


def _text_of(document: Mapping[str, Any], rank_fields: Sequence[str], where: str) -> str:
    if not rank_fields:
        return _member(document, "text", where)
    found = [name for name in rank_fields if document.get(name) is not None]
    if not found:
        raise RequestError("document has none of the members that rank_fields names", param=where)
    return "\n".join(f"{name}: {_member(document, name, where)}" for name in found)


def _member(document: Mapping[str, Any], name: str, where: str) -> str:
    value = document.get(name)
    if isinstance(value, str):
        return value
    # The names of members are the client's, except this one.
    shown = name if name == "text" else "member"
    if value is None:
        raise RequestError(f"document {shown} field is missing", param=f"{where}.{shown}")
    raise RequestError(f"document {shown} field have to be string", param=f"{where}.{shown}")
