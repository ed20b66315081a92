"""`NotGiven`: the value of tools and documents in a chat without them."""

from __future__ import annotations

from jinja2 import Undefined


class NotGiven(Undefined):
    """Undefined, as in OpenVINO Model Server, and equal to none, as in Hugging Face's renderer.

    Templates are written for either: ``tools is defined``, ``tools is not none``,
    ``tools != none`` and a loop over no tools all do what their authors meant.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, NotGiven)

    __hash__ = Undefined.__hash__


#: The variables that Hugging Face's renderer always sets.
NOT_GIVEN = {name: NotGiven(name=name) for name in ("tools", "documents")}


def is_none(value: object) -> bool:
    """Evaluate the test ``none``."""
    return value is None or isinstance(value, NotGiven)
