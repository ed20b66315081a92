"""What a check of a file found, and how it is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Finding:
    """One error or warning. ``line`` and ``column`` count from 1; None where they are not known.

    ``node`` is the node's name, or its calculator where it has none.
    """

    file: str
    severity: Literal["error", "warning"]
    message: str
    line: int | None = None
    column: int | None = None
    node: str | None = None
    hint: str | None = None

    def to_text(self) -> str:
        """``file:line:column: error: node "x": message``, and the hint below."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        node = f'node "{self.node}": ' if self.node and f'"{self.node}"' not in self.message else ""
        text = f"{place}: {self.severity}: {node}{self.message}"
        # What follows the first line belongs to it.
        text = text.strip().replace("\n", "\n  ")
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}
