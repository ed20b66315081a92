"""`ToolResult`: the end of a call, as the model and the client see it."""

from __future__ import annotations

from typing import NamedTuple


class ToolResult(NamedTuple):
    """The end of a call.

    Attributes:
        output: the text for the model; "" if the call failed.
        error: why it failed, for the model; None if it did not.
    """

    output: str
    error: str | None = None

    @property
    def text(self) -> str:
        """The message to the model."""
        return self.output if self.error is None else f"error: {self.error}"
