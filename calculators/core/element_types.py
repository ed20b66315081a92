"""One calculator under many names, where MediaPipe instantiates a template per element type."""

from __future__ import annotations

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, ClassVar, TypeVar

from graph_runtime import Calculator


class VectorCalculator(Calculator):
    """Base of calculators on lists (MediaPipe's ``std::vector<T>``).

    A subclass, or a variant made by `variants`, declares the type of the elements::

        class EndLoopWordCalculator(EndLoopCalculator):
            element_type = Word
    """

    #: The Python type of one element; Any: not checked.
    element_type: ClassVar[Any] = Any

    @classmethod
    def list_type(cls) -> Any:
        """The packet type of a list of elements."""
        return GenericAlias(list, (cls.element_type,))


V = TypeVar("V", bound=VectorCalculator)


def variants(base: type[V], element_types: Mapping[str, Any]) -> list[type[V]]:
    """``base`` under its own name, for any element, and once per (name, element type)."""
    made = [
        type(
            name,
            (base,),
            {
                "element_type": element_type,
                "__doc__": base.__doc__,
                "__module__": base.__module__,
            },
        )
        for name, element_type in element_types.items()
    ]
    return [base, *made]
