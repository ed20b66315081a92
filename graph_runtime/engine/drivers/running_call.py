"""The node that a thread is calling, read from its stack: for reports about threads that hang.

Costs nothing until it is used. The driver may be compiled, and has no frames then: a call is found
by the method of its calculator that has its context as an argument, or by the task that awaits it.
"""

from __future__ import annotations

from types import FrameType
from typing import TYPE_CHECKING

from graph_runtime.authoring.calculator import Calculator
from graph_runtime.authoring.context import CalculatorContext
from graph_runtime.engine.drivers.awaited_call import drive_awaitable

if TYPE_CHECKING:
    from graph_runtime.plan.plan import NodePlan


def running_node(frame: FrameType | None) -> NodePlan | None:
    """Return the node whose call ``frame``, a thread's innermost, is in.

    None outside of calls, and in an observer, which belongs to the application.
    """
    while frame is not None:
        context: CalculatorContext | None
        if frame.f_code is drive_awaitable.__code__:
            # The task also delivers what the call has sent.
            is_delivering = frame.f_locals["driver"].is_delivering
            context = None if is_delivering else frame.f_locals.get("following")
            return context._node.plan if context is not None else None
        context = _context_of_method(frame)
        if context is not None:
            return context._node.plan
        frame = frame.f_back
    return None


def _context_of_method(frame: FrameType) -> CalculatorContext | None:
    """Return the context that a calculator's method was called with, or None."""
    code = frame.f_code
    given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    if not given or not isinstance(given[0], Calculator):
        return None
    return next((each for each in given if isinstance(each, CalculatorContext)), None)
