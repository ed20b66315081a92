"""Graph services: objects shared by the nodes of a graph, asked for by a typed key.

A calculator requests one in its contract (``contract.use_service(CLOCK)``), the application
provides it with ``graph.set_service_object(CLOCK, clock)``, and a service with a ``factory`` makes
a default if the application provides none (MediaPipe ``framework/graph_service.h``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar, final

T = TypeVar("T")


@final
class GraphService(Generic[T]):
    """A typed key. ``factory`` makes the default object, or is None when there is none."""

    __slots__ = ("factory", "key")

    def __init__(self, key: str, factory: Callable[[], T] | None = None) -> None:
        self.key = key
        self.factory = factory

    def __repr__(self) -> str:
        return f"GraphService({self.key!r})"


class ServiceRequest(NamedTuple):
    """A contract's request for a service."""

    service: GraphService[object]
    is_optional: bool
