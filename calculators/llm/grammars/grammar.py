"""`AnswerForm`, what an answer has to look like, and `Grammar`, the same for the engine."""

from __future__ import annotations

from typing import Literal

import msgspec


class AnswerForm(msgspec.Struct, frozen=True, array_like=True):
    """The JSON text of a format, as `calculators.llm.grammars.formats` describes them.

    A value: the same form is checked once.
    """

    text: str


class Grammar(msgspec.Struct, frozen=True, array_like=True):
    """What the engine follows: made by the grammar process, and proven there.

    Attributes:
        kind: "ebnf" are rules, "structural_tag" the library's JSON with rules inside.
    """

    kind: Literal["ebnf", "structural_tag"]
    text: str
