"""The events that parsers make, for parsers of other packages."""

from __future__ import annotations

from calculators.language.events import Arguments, Content, OutputEvent, Reasoning, ToolCall

__all__ = ["Arguments", "Content", "OutputEvent", "Reasoning", "ToolCall"]
