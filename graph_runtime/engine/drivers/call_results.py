"""Results and errors of a calculator's calls, as their driver reports them."""

from __future__ import annotations

from graph_runtime.errors import Code, GraphError


def from_below(error: BaseException) -> BaseException:
    """The error without the frame of its caller, which would keep the error that keeps the frame.

    Objects that calculators hold, such as the body of a request, are then freed with the run.
    """
    traceback = error.__traceback__
    return error if traceback is None else error.with_traceback(traceback.tb_next)


def not_a_result(result: object) -> GraphError:
    """Return the error of a call that returned something."""
    return GraphError(
        f"returned {type(result).__name__}; a calculator's methods return None and send packets "
        f"through their context",
        code=Code.INTERNAL,
    )
