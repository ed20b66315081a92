"""A request to ``/v3/embeddings``, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.requests import fields
from calculators.requests.http_payload import RequestError
from calculators.requests.members import Members, honoured, ignored, read_members, refused, table
from calculators.requests.readers import STRING, Choice, Integer, Value
from calculators.requests.schema import array, one_of, string

#: Texts of one request; OpenAI has the same limit.
MAX_TEXTS: Final = 2048
#: Characters of one text. A longer one has more tokens than models take.
MAX_CHARACTERS: Final = 128 * 1024
#: Characters of all texts of one request.
MAX_ALL_CHARACTERS: Final = 1024 * 1024

_TEXT: Final = string(maxLength=MAX_CHARACTERS)

EMBEDDINGS_MEMBERS: Final[Members] = table(
    honoured("model", STRING, "The name of the model.", is_required=True, minLength=1),
    honoured(
        "input",
        Value(one_of(_TEXT, array(_TEXT, minItems=1, maxItems=MAX_TEXTS))),
        is_required=True,
    ),
    honoured(
        "encoding_format",
        Choice(("float", "base64")),
        "base64 is of little-endian 32-bit floats.",
    ),
    honoured(
        "dimensions",
        Integer(minimum=1, maximum=65536),
        "The first numbers of each embedding; not more than the model's.",
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "user metadata safety_identifier priority request_id",
    ),
    refused(
        "is not supported; the option truncate of the graph's node cuts long texts",
        "truncate_prompt_tokens truncate",
    ),
    refused(
        "is not supported; put the words that the model expects before a text into the text",
        "input_type prompt_name",
    ),
)


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
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    read = read_members(body, EMBEDDINGS_MEMBERS)
    return EmbeddingsRequest(
        model=read.get("model", ""),
        texts=_texts(read),
        is_base64=read.get("encoding_format") == "base64",
        dimensions=read.get("dimensions"),
    )


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
