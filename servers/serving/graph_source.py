"""A graph with everything it needs: subgraphs beside its file, the lines of its nodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal

from graph_runtime import (
    GraphSyntaxError,
    Registry,
    ValidatedGraph,
    load_graph_config,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.language.graph_config import MAX_BYTES
from graph_runtime.language.source_map import node_positions, port_positions
from graph_runtime.regular_file import read_regular_file

#: OpenVINO Model Server's own pattern (``mediapipegraphdefinition.cpp``).
_QUEUE_SIZE: Final = re.compile(r"^[^\S\n]*#\s*OVMS_GRAPH_QUEUE_MAX_SIZE\s*:\s*(\S+)\s*$", re.M)


class GraphSource:
    """One graph file; or a graph that was made, whose ``text`` is given.

    Attributes:
        path: as the user wrote it; of a graph that was made, what messages call it.
        config: the ``CalculatorGraphConfig`` as written.
        configs: that one, and those of the subgraph files beside it that it uses.
        files: of all these; none of a graph that was made.
        registry: what its nodes are made from, subgraph files beside it included.

    Args:
        errors: where errors in options go that do not keep the rest of the graph from being
            checked; without it they are raised.

    Raises:
        GraphError: it cannot be read, or does not parse.
    """

    def __init__(
        self,
        path: str,
        registry: Registry,
        *,
        text: str | None = None,
        errors: list[GraphSyntaxError] | None = None,
    ) -> None:
        self.path = path
        self.registry = Registry(registry)
        self._is_file = text is None
        self.files: list[Path] = []
        if text is None:
            self.config = load_graph_config(path, errors=errors)
            self.configs = [self.config]
            self.files.append(Path(path))
            self._register_neighbours()
        else:
            self.config = parse_graph_text(text, source=path)
            self.configs = [self.config]

    def validate(self) -> ValidatedGraph:
        """The plan.

        Raises:
            ValidationError: with every finding; those about a node begin with its `positions`.
        """
        return validate_graph(self.config, registry=self.registry, positions=self.positions())

    def positions(self) -> list[str] | None:
        """``file:line:column`` of each node, in order; None without a text file."""
        places = self.node_places()
        if places is None:
            return None
        return [f"{self.path}:{line}:{column}" for line, column in places]

    def node_places(self) -> list[tuple[int, int]] | None:
        """Line and column of each node, in order; None without a text file."""
        text = self._text()
        if text is None:
            return None
        places = node_positions(text)
        return places if len(places) == len(self.config.node) else None

    def place_in(self, message: str) -> tuple[int, int] | None:
        """Line and column of the stream or side packet of the graph itself that a message quotes;
        None where it quotes none."""
        for entry, place in port_positions(self._text() or "").items():
            if f'"{entry}"' in message or f'"{entry.rpartition(":")[2]}"' in message:
                return place
        return None

    def queue_size(self) -> int | Literal["AUTO"]:
        """What the comment ``# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO`` asks for; 0 without one.

        There it is how many prepared instances of the graph wait for requests. Here a graph is
        made from its plan for each request, which takes some microseconds, so nothing waits.

        Raises:
            GraphSyntaxError: neither a number from 0 on nor AUTO.
        """
        text = self._text() or ""
        match = _QUEUE_SIZE.search(text)
        if match is None or match[1] == "AUTO":
            return 0 if match is None else "AUTO"
        if not match[1].isdecimal() or len(match[1]) > 9:
            raise GraphSyntaxError(
                f"OVMS_GRAPH_QUEUE_MAX_SIZE is {match[1][:40]}; a whole number from 0 on, or AUTO, "
                f"is needed",
                source=self.path,
                line=text.count("\n", 0, match.start(1)) + 1,
                column=match.start(1) - text.rfind("\n", 0, match.start(1)),
            )
        return int(match[1])

    def _text(self) -> str | None:
        """The file as text; None for a binary one, and where there is none."""
        if not self._is_file:
            return None
        try:
            return read_regular_file(self.path, MAX_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def _register_neighbours(self) -> None:
        """Nodes of unknown types may be subgraphs, whose files lie beside this one."""
        waiting = [self.config]
        tried: set[str] = set()
        while waiting:
            config = waiting.pop()
            for node in config.node:
                name = node.calculator
                if name in tried or self._is_known(name, self.config.package):
                    continue
                tried.add(name)
                found = self._neighbour(name)
                if found is not None:
                    self.registry.register_subgraph(found, name)
                    waiting.append(found)
                    self.configs.append(found)

    def _is_known(self, name: str, package: str) -> bool:
        return (
            self.registry.find_calculator(name, package) is not None
            or self.registry.find_subgraph(name, package) is not None
        )

    def _neighbour(self, name: str) -> Any:
        """The graph of this ``type`` in the same directory, or None.

        A file without a ``type`` goes by its name. Only files that look right are parsed: the
        others may be anything.
        """
        says_type = re.compile(rf"""\btype\s*:\s*["']{re.escape(name)}["']""")
        own = Path(self.path)
        for path in sorted(own.parent.glob("*.pbtxt")):
            try:
                text = read_regular_file(path, MAX_BYTES).decode()
                is_likely = says_type.search(text) is not None
            except (OSError, UnicodeDecodeError):
                continue
            if (is_likely or path.stem == name) and not path.samefile(own):
                config = load_graph_config(path)
                if (config.type or path.stem) == name:
                    self.files.append(path)
                    return config
        return None
