"""Requests to ``/tokenize``, an endpoint of OpenVINO Model Server, and their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calculators.kit.requests import fields
from calculators.kit.requests.fields import INT32_MAX
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    EVERYWHERE,
    Integer,
    Members,
    Value,
    honoured,
    read_members,
    read_model,
    table,
)
from calculators.kit.requests.schema import array, one_of, string, word

#: Texts of one request.
MAX_TEXTS: Final = 1024
#: Characters of all texts of one request.
MAX_CHARACTERS: Final = 2**20
#: Tokens that padding may add up to, over all texts.
MAX_PADDED: Final = 2**20

_TEXT: Final = string(maxLength=MAX_CHARACTERS)
_SIDES: Final = ("left", "right")


def _read_side(value: Any, path: str) -> str:
    if isinstance(value, str) and value in _SIDES:
        return value
    # The text of OpenVINO Model Server.
    raise RequestError(f"{path} should be string, either left or right", param=path)


TOKENIZE_MEMBERS: Final[Members] = table(
    EVERYWHERE,
    honoured(
        "text",
        Value(one_of(_TEXT, array(_TEXT, minItems=1, maxItems=MAX_TEXTS))),
        f"All texts together have at most {MAX_CHARACTERS} characters.",
        is_required=True,
    ),
    honoured("add_special_tokens", BOOLEAN),
    honoured(
        "max_length",
        Integer(minimum=1, maximum=INT32_MAX),
        "Tokens of each text at most; the rest is cut off.",
    ),
    honoured("pad_to_max_length", BOOLEAN),
    honoured("padding_side", Value(word(_SIDES), _read_side)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeRequest:
    """A checked request.

    Attributes:
        texts: at least one; each may be empty.
        add_special_tokens: add tokens such as the one that begins a text.
        max_length: the most tokens of each text; the rest is cut off. None is no limit.
        pad_to_max_length: pad shorter texts; false without ``max_length``.
        padding_side: the side on which padding is added.
    """

    model: str
    texts: tuple[str, ...]
    add_special_tokens: bool = True
    max_length: int | None = None
    pad_to_max_length: bool = False
    padding_side: Literal["left", "right"] = "right"

    @property
    def is_batch(self) -> bool:
        """True if the answer is an array of arrays."""
        return len(self.texts) > 1


def parse_tokenize_request(value: object, members: Members = TOKENIZE_MEMBERS) -> TokenizeRequest:
    """Check a parsed body; ``members``: the ones that it may have.

    Source: OpenVINO Model Server ``tokenize/tokenize_parser.cpp``.

    Raises:
        RequestError: the first member that is wrong.
    """
    body = read_members(fields.body_object(value), members)
    texts = _read_texts(body)
    max_length = body.get("max_length")
    pads = body.get("pad_to_max_length", False) and max_length is not None
    if pads and (max_length or 0) * len(texts) > MAX_PADDED:
        raise fields.invalid(
            "max_length",
            f"{max_length} tokens for each text are more than the {MAX_PADDED} to pad to in all",
        )
    return TokenizeRequest(
        model=read_model(body),
        texts=texts,
        add_special_tokens=body.get("add_special_tokens", True),
        max_length=max_length,
        pad_to_max_length=pads,
        padding_side=body.get("padding_side", "right"),
    )


def tokenize_response(tokens: Sequence[bytes]) -> str:
    """Return the body of the answer: one array for one text, else an array of arrays.

    ``tokens``: the array of token ids of each text, as JSON.
    """
    shown = tokens[0] if len(tokens) == 1 else b"[" + b",".join(tokens) + b"]"
    return (b'{"tokens":' + shown + b"}").decode("ascii")


def _read_texts(body: Mapping[str, Any]) -> tuple[str, ...]:
    value = body.get("text")
    if value is None:
        raise RequestError("text field is required: a string or an array of strings", param="text")
    if isinstance(value, str):
        _check_length(len(value))
        return (value,)
    if not isinstance(value, list):
        raise fields.wrong_type("text", "a string or an array of strings", value)
    if not value:
        raise RequestError("text array should not be empty", param="text")
    if len(value) > MAX_TEXTS:
        raise fields.invalid("text", f"{len(value)} texts are more than the maximum {MAX_TEXTS}")
    for i, text in enumerate(value):
        if not isinstance(text, str):
            raise fields.wrong_type(f"text[{i}]", "a string", text)
    _check_length(sum(map(len, value)))
    return tuple(value)


def _check_length(characters: int) -> None:
    if characters > MAX_CHARACTERS:
        raise fields.invalid(
            "text",
            f"{characters} characters are more than the maximum {MAX_CHARACTERS} of one request; "
            "send them in several",
        )
