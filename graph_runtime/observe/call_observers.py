"""`CallObserver`: the receiver of all calls of a graph's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graph_runtime.engine.drivers.awaited_call import CallRecorder

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.run import Run


class CallObserver(CallRecorder, Protocol):
    """Observer of a graph's runs: ``start`` opens each run, ``record_call`` follows for each call.

    All methods are called with the graph's lock held, so they must be quick.
    """

    def start(self, run: Run) -> None:
        """Begin a run."""


class BothObservers:
    """Two observers of the same calls."""

    __slots__ = ("_one", "_other")

    def __init__(self, one: CallObserver, other: CallObserver) -> None:
        self._one, self._other = one, other

    def start(self, run: Run) -> None:
        self._one.start(run)
        self._other.start(run)

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        self._one.record_call(context, started, ended)
        self._other.record_call(context, started, ended)

    def record_flush(self, context: CalculatorContext) -> None:
        self._one.record_flush(context)
        self._other.record_flush(context)


def both(one: CallObserver | None, other: CallObserver | None) -> CallObserver | None:
    """Return an observer that passes calls to both; None if both are None."""
    if one is None or other is None:
        return one or other
    return BothObservers(one, other)
