"""A request to ``/moderations``, OpenAI's form, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    Members,
    honoured,
    read_members,
    table,
)
from calculators.kit.requests.readers import Value
from calculators.kit.requests.schema import array, one_of, string, tagged
from calculators.text.text_classification.common_members import MODEL, TIMEOUT
from calculators.text.text_classification.texts import (
    MAX_CHARACTERS,
    MAX_TEXTS,
    Texts,
    check_characters,
    check_count,
    check_text,
    read_texts,
)

_TEXT: Final = string(maxLength=MAX_CHARACTERS)
_PART: Final = tagged("text", {"text": _TEXT})

MODERATION_MEMBERS: Final[Members] = table(
    MODEL,
    honoured(
        "input",
        Value(
            one_of(
                _TEXT,
                array(_TEXT, minItems=1, maxItems=MAX_TEXTS),
                array(_PART, minItems=1, maxItems=MAX_TEXTS),
            )
        ),
        "A text, several texts, each with a result, or the parts of one message, with one result.",
        is_required=True,
    ),
    TIMEOUT,
    ABOUT_THE_CLIENT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationRequest:
    """Texts to moderate.

    Attributes:
        model: the name that the client used; "" for none.
        is_one: the texts are parts of one message, which gets one result.
    """

    model: str
    texts: Texts
    is_one: bool


def parse_moderation_request(body: object) -> ModerationRequest:
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), MODERATION_MEMBERS)
    value = read.get("input")
    if value is None:
        raise fields.missing("input", "a string, an array of strings, or an array of text parts")
    is_one = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    texts = _read_parts(value) if is_one else read_texts(value, "input")
    return ModerationRequest(model=read.get("model", ""), texts=texts, is_one=is_one)


def _read_parts(parts: list[Any]) -> Texts:
    check_count(parts, "input")
    texts, places = [], []
    for number, part in enumerate(parts):
        place = f"input[{number}]"
        if not isinstance(part, dict):
            raise fields.wrong_type(
                place, 'an object such as {"type": "text", "text": "..."}', part
            )
        kind = part.get("type")
        if kind == "image_url":
            raise fields.invalid(place, "images are not supported; the model classifies texts")
        if kind != "text":
            raise fields.invalid(f"{place}.type", f'{fields.describe(kind)} is not "text"')
        text = part.get("text")
        if text is None:
            raise fields.missing(f"{place}.text", "a string")
        check_text(text, f"{place}.text")
        texts.append(text)
        places.append(f"{place}.text")
    made = Texts(texts=texts, places=places)
    check_characters(made, "input")
    return made
