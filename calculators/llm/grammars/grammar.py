"""`AnswerForm`, the form of an answer that a client asks for, and `Grammar`, its rules."""

from __future__ import annotations

import msgspec


class AnswerForm(msgspec.Struct, frozen=True, array_like=True):
    """The JSON text of a format of `calculators.llm.grammars.formats`.

    Equal forms are equal values, and are checked once.
    """

    text: str


class Grammar(msgspec.Struct, frozen=True, array_like=True):
    """A grammar for the engine, made and proven by the grammar process.

    Attributes:
        text: rules in the notation of the engine's library (EBNF).
        begins_with_space: white space at the beginning of the answer may belong to the form.
    """

    text: str
    begins_with_space: bool = False
