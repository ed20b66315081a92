"""The texts of a request, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from calculators.kit.requests import fields

#: Texts of one request.
MAX_TEXTS: Final = 2048
#: Characters of one text; a longer one would be hundreds of windows.
MAX_CHARACTERS: Final = 128 * 1024
#: Characters of all texts of one request.
MAX_ALL_CHARACTERS: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
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


def read_texts(value: Any, name: str) -> Texts:
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
    made = Texts(texts=texts, places=places)
    check_characters(made, name)
    return made


def check_count(values: Sequence[Any], name: str) -> None:
    """Refuse an empty array, and one of too many texts."""
    if not values:
        raise fields.invalid(name, "expected at least one text, got an empty array")
    if len(values) > MAX_TEXTS:
        raise fields.invalid(name, f"{len(values)} texts are above the maximum {MAX_TEXTS}")


def check_text(text: Any, place: str) -> None:
    """Refuse values that are not texts, and texts that are too long."""
    if isinstance(text, int | list):
        raise fields.wrong_type(
            place, "a string (token ids of another tokenizer would mean other words)", text
        )
    if not isinstance(text, str):
        raise fields.wrong_type(place, "a string", text)
    if len(text) > MAX_CHARACTERS:
        raise fields.invalid(
            place, f"{len(text)} characters are above the maximum {MAX_CHARACTERS}"
        )


def check_characters(texts: Texts, name: str) -> None:
    """Refuse more characters in all than a request may have."""
    if texts.characters > MAX_ALL_CHARACTERS:
        raise fields.invalid(
            name,
            f"{texts.characters} characters in all are above the maximum {MAX_ALL_CHARACTERS}",
        )
