"""`Tools`: the tools that a model may call in one answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that ``tool_choice`` leaves, as the client wrote them.

    Attributes:
        items: for the template; empty if no tool may be called.
        choice: "none" if there are no items; "named" if the client chose one tool, which then is
            the only item.
        schema_paths: the path of the schema of each item's parameters in the request.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    choice: Literal["none", "auto", "required", "named"] = "none"
    schema_paths: tuple[str, ...] = ()

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The schemas of the parameters by the tool's name; {} for a tool without parameters.

        They are not checked to be JSON schemas until a grammar is made of them.
        """
        functions = [tool.get("function") or tool for tool in self.items]
        return {each["name"]: each.get("parameters") or {} for each in functions}


NO_TOOLS: Final = Tools()
