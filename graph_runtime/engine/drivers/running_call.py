"""The node that a thread is calling, read from its stack: for reports about threads that hang.

Costs nothing until it is used: the frames of `Driver` hold the context of the call.
"""

from __future__ import annotations

from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final

from graph_runtime.engine.drivers.driver import Driver

if TYPE_CHECKING:
    from graph_runtime.plan.plan import NodePlan

#: The methods that call nodes, and their variables with the context of the call.
_CALLING: Final[dict[CodeType, str]] = {
    Driver.pump.__code__: "context",
    Driver._call_through.__code__: "context",
    Driver.drive_awaitable.__code__: "following",
}


def running_node(frame: FrameType | None) -> NodePlan | None:
    """The node whose call ``frame``, a thread's innermost, is in.

    None outside of calls, and in an observer, which belongs to the application.
    """
    while frame is not None:
        if frame.f_code is Driver._deliver.__code__:
            return None
        variable = _CALLING.get(frame.f_code)
        if variable is not None:
            context = frame.f_locals.get(variable)
            return context._node.plan if context is not None else None
        frame = frame.f_back
    return None
