"""`Tools`: the tools that a model may call in one answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple


class TextGrammar(NamedTuple):
    """The grammar of a text that is the one argument of a tool.

    Attributes:
        argument: its name.
        syntax: "lark" or "regex".
        path: the member of the request with the definition, for errors.
    """

    argument: str
    syntax: str
    definition: str
    path: str


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that ``tool_choice`` leaves, as the client wrote them.

    Attributes:
        items: for the template; empty if no tool may be called.
        choice: "none" if there are no items; "named" if the client chose one tool, which then is
            the only item. "required" and "named" may have no items yet: a node may have the tools.
        named: the tool that the client chose and that is none of its own; "" otherwise.
        is_declined: the client wants no calls (``tool_choice: "none"``), so nobody adds tools.
        schema_paths: the path of the schema of each item's parameters in the request.
        grammars: the grammars of tools of one text by the tool's name; further names are no tools'.
    """

    items: list[dict[str, Any]] = field(default_factory=list)
    choice: Literal["none", "auto", "required", "named"] = "none"
    schema_paths: tuple[str, ...] = ()
    is_declined: bool = False
    named: str = ""
    grammars: Mapping[str, TextGrammar] = field(default_factory=dict)

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """The schemas of the parameters by the tool's name; {} for a tool without parameters.

        They are not checked to be JSON schemas until a grammar is made of them.
        """
        return {each["name"]: each.get("parameters") or {} for each in self._functions}

    @property
    def strict(self) -> frozenset[str]:
        """The names of the tools whose schemas are to be followed in full."""
        return frozenset(each["name"] for each in self._functions if each.get("strict") is True)

    @property
    def _functions(self) -> list[dict[str, Any]]:
        return [tool.get("function") or tool for tool in self.items]


NO_TOOLS: Final = Tools()


class ToolServer(NamedTuple):
    """A server of tools that a request names by its label, for this server to call.

    Attributes:
        path: of the member of the request, for errors.
        url: the address that the client gives; it must be the one that this server uses.
        allowed: names of the tools that may be called; None: all that the server offers.
        refused: names of tools that may not be called.
        tools: the tools as they are offered, with ``name``, ``description`` and ``parameters``.
        is_offered: a node has looked the server up, and put its tools into the request.
    """

    label: str
    path: str
    url: str = ""
    allowed: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    is_offered: bool = False
