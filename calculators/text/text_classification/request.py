"""Requests to ``/moderations``, ``/classify`` and ``/predict``, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    BOOLEAN,
    DEFAULT_MODEL,
    Enumeration,
    Members,
    Value,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import array, one_of, string, tagged
from calculators.text.text_models.encoder_task import MAX_ALL_CHARACTERS, MAX_CHARACTERS, MAX_TEXTS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedTexts:
    """Texts to classify.

    Attributes:
        texts: at least one, in the order of the answer.
        places: the member that each comes from, such as ``input[3]``.
        seconds: the second texts of pairs, None for a text alone; empty: all stand alone.
        cut: the end that is cut off a text that is too long; None: it is split into windows.
    """

    texts: Sequence[str]
    places: Sequence[str]
    seconds: Sequence[str | None] = ()
    cut: Literal["left", "right"] | None = None

    @property
    def member(self) -> str:
        """The member of the request that has the texts."""
        return self.places[0].partition("[")[0]

    @property
    def characters(self) -> int:
        """The number of characters of all texts."""
        return sum(map(len, self.texts)) + sum(len(each or "") for each in self.seconds)


def read_texts(value: Any, name: str) -> ClassifiedTexts:
    """Read a string or an array of strings.

    Raises:
        RequestError: it is neither, or there is too much.
    """
    if isinstance(value, str):
        texts, places = [value], [name]
    elif isinstance(value, list):
        check_count(value, name)
        texts, places = value, [f"{name}[{place}]" for place in range(len(value))]
    else:
        raise fields.wrong_type(name, "a string or an array of strings", value)
    for text, place in zip(texts, places, strict=True):
        check_text(text, place)
    made = ClassifiedTexts(texts=texts, places=places)
    check_characters(made, name)
    return made


def check_count(values: Sequence[Any], name: str) -> None:
    """Refuse an empty array, and one of too many texts."""
    if not values:
        raise fields.invalid(name, "expected at least one text, got an empty array")
    fields.check_most(name, len(values), "texts", MAX_TEXTS)


def check_text(text: Any, place: str) -> None:
    """Refuse values that are not texts, and texts that are too long."""
    if isinstance(text, int | list):
        raise fields.wrong_type(
            place, "a string (token ids of another tokenizer would mean other words)", text
        )
    if not isinstance(text, str):
        raise fields.wrong_type(place, "a string", text)
    fields.check_most(place, len(text), "characters", MAX_CHARACTERS)


def check_characters(texts: ClassifiedTexts, name: str) -> None:
    """Refuse more characters in all than a request may have."""
    fields.check_most(name, texts.characters, "characters in all", MAX_ALL_CHARACTERS)


TIMEOUT: Final = honoured("timeout", Value())  # the front reads it, and knows the schema


_TEXT: Final = string(maxLength=MAX_CHARACTERS)

CLASSIFY_MEMBERS: Final[Members] = table(
    DEFAULT_MODEL,
    honoured(
        "input",
        Value(one_of(_TEXT, array(_TEXT, minItems=1, maxItems=MAX_TEXTS))),
        "A text, or several.",
        is_required=True,
    ),
    honoured(
        "use_activation",
        BOOLEAN,
        "False: probs are the model's outputs, without sigmoid or softmax.",
    ),
    honoured("activation", BOOLEAN, "An older name of use_activation."),
    honoured("softmax", BOOLEAN, "An older name of use_activation."),
    TIMEOUT,
    ABOUT_THE_CLIENT,
    ignored("names the request for a log", "rid"),
    refused("is not supported; send texts as input", "messages prompt"),
    refused(
        "is not supported; the scores of a long text are the means over its windows",
        "truncate_prompt_tokens truncation_side",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifyRequest:
    """Texts to classify.

    Attributes:
        model: the name that the client used; "" for none.
        has_scores: apply sigmoid or softmax, as the model wants it.
    """

    model: str
    texts: ClassifiedTexts
    has_scores: bool


def parse_classify_request(body: object) -> ClassifyRequest:
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    read = read_members(fields.body_object(body), CLASSIFY_MEMBERS)
    if "input" not in read:
        raise fields.missing("input", "a string or an array of strings")
    names = ("use_activation", "activation", "softmax")
    wanted = next((read[name] for name in names if name in read), True)
    return ClassifyRequest(
        model=read.get("model", ""), texts=read_texts(read["input"], "input"), has_scores=wanted
    )


_PART: Final = tagged("text", {"text": _TEXT})

MODERATION_MEMBERS: Final[Members] = table(
    DEFAULT_MODEL,
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
    texts: ClassifiedTexts
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


def _read_parts(parts: list[Any]) -> ClassifiedTexts:
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
    made = ClassifiedTexts(texts=texts, places=places)
    check_characters(made, "input")
    return made


_FORM: Final = "a string, a pair of strings, or an array of [string] and [string, string]"
_ALONE_OR_PAIR: Final = array(_TEXT, minItems=1, maxItems=2)

PREDICT_MEMBERS: Final[Members] = table(
    DEFAULT_MODEL,
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

    texts: ClassifiedTexts
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
            raise fields.combined(
                "truncation_direction", "pairs, which are cut off on the right only"
            )
    texts = ClassifiedTexts(
        texts=firsts, places=places, seconds=seconds if has_pairs else (), cut=cut
    )
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
