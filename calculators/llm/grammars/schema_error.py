"""`SchemaError`: a schema that no answer can be held to."""

from __future__ import annotations


class SchemaError(ValueError):
    """``place`` is where in the schema, ``.properties.a``; the text says what is wrong there."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(why)
        self.place = place
