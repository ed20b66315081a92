"""The registry that the arguments of a command ask for, and the place of an error."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

import calculators
from graph_runtime import REGISTRY, GraphError, Registry, load_graph_config
from servers.cli.author_modules import import_author_module, is_author_file
from servers.cli.messages import CommandFailed


def make_registry(args: argparse.Namespace, *, has_files: bool = True) -> Registry:
    """Return a registry of graphrt's calculators, ``--calculators`` and ``--subgraph``.

    ``has_files``: import the files of ``--calculators`` too; a server does it itself, and again
    when they change.

    Raises:
        CommandFailed: a module cannot be imported, or a subgraph file cannot be used.
    """
    if args.verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    calculators.register_all(REGISTRY)
    for name in args.calculators:
        if not has_files and is_author_file(name):
            continue
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
    """Return the error's text, preceded by the file unless it names it."""
    text = str(error)
    return text if path in text else f"{path}: {text}"
