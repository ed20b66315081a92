"""Findings of checks of files, as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """One error or warning.

    Attributes:
        line, column: counted from 1; None if they are not known.
        end_line, end_column: the place after the word that is meant; None if it is not known.
        field: the field of a graph's text whose value is meant, such as ``node.input_stream``.
        node: the node's name, or its calculator if it has none.
    """

    file: str
    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None
    node: str | None = None
    hint: str | None = None
    end_line: int | None = None
    end_column: int | None = None
    field: str | None = None

    def to_text(self) -> str:
        """Return ``file:line:column: error: node "x": message``, with the hint on its own line."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        node = f'node "{self.node}": ' if self.node and f'"{self.node}"' not in self.message else ""
        text = f"{place}: {self.severity}: {node}{self.message}"
        # Indented, so that further lines are seen to belong to the first.
        text = text.strip().replace("\n", "\n  ")
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}
