"""A graph file with everything it needs: the registry, subgraphs, the lines of its nodes."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from pathlib import Path
from typing import Any

import calculators
from graph_runtime import (
    REGISTRY,
    GraphError,
    Registry,
    ValidatedGraph,
    load_graph_config,
    validate_graph,
)
from graph_runtime.source_map import node_positions
from servers.cli.author_modules import import_author_module
from servers.cli.messages import CommandFailed


def make_registry(args: argparse.Namespace) -> Registry:
    """The calculators of graphrt, of ``--calculators``, and the subgraphs of ``--subgraph``.

    Raises:
        CommandFailed: a module cannot be imported, or a subgraph file cannot be used.
    """
    if args.verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    calculators.register_all(REGISTRY)
    for name in args.calculators:
        import_author_module(name, verbose=args.verbose)
    registry = Registry(REGISTRY)
    for path in getattr(args, "subgraph", ()):
        try:
            config = load_graph_config(path)
            registry.register_subgraph(config, config.type or Path(path).stem)
        except GraphError as error:
            raise CommandFailed(located(path, error)) from error
    return registry


def located(path: str, error: GraphError) -> str:
    """The error's text, with the file in front where it does not name it."""
    text = str(error)
    return text if path in text else f"{path}: {text}"


class GraphSource:
    """One graph file.

    Attributes:
        path: as the user wrote it.
        config: the ``CalculatorGraphConfig`` as written.
        registry: what its nodes are made from, subgraph files beside it included.

    Raises:
        GraphError: it cannot be read, or does not parse.
    """

    def __init__(self, path: str, registry: Registry) -> None:
        self.path = path
        self.config = load_graph_config(path)
        self.registry = Registry(registry)
        self._register_neighbours()

    def validate(self) -> ValidatedGraph:
        """The plan.

        Raises:
            ValidationError: with every finding; those about a node begin with its `positions`.
        """
        return validate_graph(self.config, registry=self.registry, positions=self.positions())

    def positions(self) -> list[str] | None:
        """``file:line:column`` of each node, in order; None for a binary file."""
        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        places = node_positions(text)
        if len(places) != len(self.config.node):
            return None
        return [f"{self.path}:{line}:{column}" for line, column in places]

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
                is_likely = says_type.search(path.read_text(encoding="utf-8")) is not None
            except (OSError, UnicodeDecodeError):
                continue
            if (is_likely or path.stem == name) and not path.samefile(own):
                config = load_graph_config(path)
                if (config.type or path.stem) == name:
                    return config
        return None
