"""A request to ``/classify``, vLLM's form, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import (
    ABOUT_THE_CLIENT,
    Members,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.readers import BOOLEAN, Value
from calculators.kit.requests.schema import array, one_of, string
from calculators.text.text_classification.common_members import MODEL, TIMEOUT
from calculators.text.text_classification.texts import MAX_CHARACTERS, MAX_TEXTS, Texts, read_texts

_TEXT: Final = string(maxLength=MAX_CHARACTERS)

CLASSIFY_MEMBERS: Final[Members] = table(
    MODEL,
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
    texts: Texts
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
