"""A request to ``/v3/embeddings``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.requests import fields
from calculators.requests.http_payload import RequestError
from calculators.requests.readers import Choice, Integer, Reader

#: Texts of one request; OpenAI has the same limit.
MAX_TEXTS: Final = 2048
#: Characters of one text. A longer one has more tokens than models take.
MAX_CHARACTERS: Final = 128 * 1024
#: Characters of all texts of one request.
MAX_ALL_CHARACTERS: Final = 1024 * 1024
FORMAT: Final = Choice(("float", "base64"))
DIMENSIONS: Final = Integer(minimum=1, maximum=65536)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """Texts to embed, checked.

    Attributes:
        model: the name that the client used.
        texts: at least one, in the order of the answer.
        is_base64: return embeddings as base64 of little-endian 32-bit floats.
        dimensions: the numbers to return of each embedding; None: all.
    """

    model: str
    texts: list[str]
    is_base64: bool
    dimensions: int | None


def parse_embeddings_request(body: object) -> EmbeddingsRequest:
    """The request of a parsed JSON body; members that mean nothing here are ignored.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    texts = _texts(body)
    return EmbeddingsRequest(
        model=fields.string(body, "model") or "",
        texts=texts,
        is_base64=_read(body, "encoding_format", FORMAT) == "base64",
        dimensions=_read(body, "dimensions", DIMENSIONS),
    )


def _read(body: Mapping[str, Any], name: str, reader: Reader) -> Any:
    value = body.get(name)
    return None if value is None else reader.read(value, name)


def _texts(body: Mapping[str, Any]) -> list[str]:
    value = body.get("input")
    if value is None:
        raise fields.missing("input", "a string or an array of strings")
    if isinstance(value, str):
        texts, paths = [value], ["input"]
    elif isinstance(value, list):
        if not value:
            raise fields.invalid("input", "expected at least one string, got an empty array")
        if len(value) > MAX_TEXTS:
            raise fields.invalid("input", f"{len(value)} texts are above the maximum {MAX_TEXTS}")
        texts, paths = value, [f"input[{place}]" for place in range(len(value))]
    else:
        raise fields.wrong_type("input", "a string or an array of strings", value)
    total = 0
    for text, path in zip(texts, paths, strict=True):
        if isinstance(text, int | list):
            raise fields.wrong_type(
                path, "a string (token ids of another tokenizer would mean other words)", text
            )
        if not isinstance(text, str):
            raise fields.wrong_type(path, "a string", text)
        if len(text) > MAX_CHARACTERS:
            raise fields.invalid(
                path, f"{len(text)} characters are above the maximum {MAX_CHARACTERS}"
            )
        total += len(text)
    if total > MAX_ALL_CHARACTERS:
        raise fields.invalid(
            "input", f"{total} characters in all are above the maximum {MAX_ALL_CHARACTERS}"
        )
    return texts
