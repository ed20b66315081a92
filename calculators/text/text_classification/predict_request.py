"""A request to ``/predict``, the form of Hugging Face's text-embeddings-inference, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, honoured, read_members, table
from calculators.kit.requests.readers import BOOLEAN, Enumeration, Value
from calculators.kit.requests.schema import array, one_of, string
from calculators.text.text_classification.common_members import MODEL, TIMEOUT
from calculators.text.text_classification.texts import (
    MAX_CHARACTERS,
    MAX_TEXTS,
    Texts,
    check_characters,
    check_count,
    check_text,
)

_FORM: Final = "a string, a pair of strings, or an array of [string] and [string, string]"
_TEXT: Final = string(maxLength=MAX_CHARACTERS)
_ALONE_OR_PAIR: Final = array(_TEXT, minItems=1, maxItems=2)

PREDICT_MEMBERS: Final[Members] = table(
    MODEL,
    honoured(
        "inputs",
        Value(one_of(_TEXT, _ALONE_OR_PAIR, array(_ALONE_OR_PAIR, minItems=1, maxItems=MAX_TEXTS))),
        "A text, a pair of texts, or an array of arrays of one text or two.",
        is_required=True,
    ),
    honoured(
        "truncate",
        BOOLEAN,
        "Cut off what is too long for the model; otherwise scores are means over windows.",
    ),
    honoured(
        "truncation_direction",
        Enumeration(("right", "left", "Right", "Left")),
        "The end that is cut off.",
    ),
    honoured("raw_scores", BOOLEAN, "Scores without sigmoid or softmax."),
    TIMEOUT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictRequest:
    """Texts and pairs of texts to classify.

    Attributes:
        is_batch: the answer is an array for each text.
        has_scores: apply sigmoid or softmax, as the model wants it.
    """

    texts: Texts
    is_batch: bool
    has_scores: bool


def parse_predict_request(body: object) -> PredictRequest:
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), PREDICT_MEMBERS)
    value = read.get("inputs")
    if value is None:
        raise fields.missing("inputs", _FORM)
    is_batch = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    each = value if is_batch else [value]
    check_count(each, "inputs")
    firsts: list[str] = []
    seconds: list[str | None] = []
    places: list[str] = []
    for number, item in enumerate(each):
        place = f"inputs[{number}]" if is_batch else "inputs"
        if is_batch and not isinstance(item, list):
            raise fields.wrong_type(place, "an array of one string or two", item)
        first, second = _read_item(item, place)
        firsts.append(first)
        seconds.append(second)
        places.append(place)
    has_pairs = any(second is not None for second in seconds)
    cut: Literal["left", "right"] | None = None
    if read.get("truncate"):
        cut = "left" if read.get("truncation_direction") in ("left", "Left") else "right"
        if cut == "left" and has_pairs:
            raise fields.invalid("truncation_direction", "pairs can be cut off on the right only")
    texts = Texts(texts=firsts, places=places, seconds=seconds if has_pairs else (), cut=cut)
    check_characters(texts, "inputs")
    return PredictRequest(
        texts=texts, is_batch=is_batch, has_scores=not read.get("raw_scores", False)
    )


def _read_item(item: Any, place: str) -> tuple[str, str | None]:
    """Read a text or a pair of texts."""
    if isinstance(item, str):
        item = [item]
    if not isinstance(item, list):
        raise fields.wrong_type(place, _FORM, item)
    if len(item) not in (1, 2):
        raise fields.invalid(
            place, f"an array of {len(item)} is neither a text nor a pair; expected {_FORM}"
        )
    for text in item:
        check_text(text, place)
    return item[0], item[1] if len(item) == 2 else None
