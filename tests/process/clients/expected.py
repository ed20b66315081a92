"""Expected facts where the exact words are the model's."""

from __future__ import annotations

from typing import Any

from tests.process.clients.asked import TOOL, TOOL_ARGUMENTS

#: A call as a fact.
CALL = [TOOL, TOOL_ARGUMENTS]


class _Person:
    """Equals any person that follows its schema."""

    def __eq__(self, other: object) -> bool:
        match other:
            case {"name": "Ann" | "Bob" | "Eve", "age": int(), **rest}:
                return not rest
            case _:
                return False

    def __repr__(self) -> str:
        return "a person by the schema"


PERSON: Any = _Person()
