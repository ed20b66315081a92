"""Sends the processes of the first model their first messages before the server's imports.

The messages are made by the functions that loading uses, so they are the same. A wrong guess costs
a second start of the processes: `ChildProcess.start` takes no process that has received another
message.
"""

from __future__ import annotations

import argparse
import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import calculators
from calculators.kit.child_process.early_start import tell_early
from calculators.kit.tasks import Task, task_of_node
from graph_runtime import REGISTRY, Registry, ResourceSettings
from graphrt_base.interrupts import raise_interrupt
from servers.cli.model_graph import graph_of_model
from servers.cli.serve_options import ServeOptions, serve_options
from servers.config import GraphEntry, find_graph
from servers.config.entries import GRAPH_FILE
from servers.serving.graph_source import GraphSource

_log: Final = logging.getLogger(__name__)


def tell_what_to_load(args: argparse.Namespace, task: Task, path: Path) -> None:
    """Send the waiting processes of a task their first messages, if they are known already.

    ``path``: the graph or the model that will be loaded first. Errors are left to the loading.
    """
    try:
        options = serve_options(args)
        entry = _entry_of(options, task, path)
        if entry is None:
            return
        registry = Registry(REGISTRY)
        calculators.register_all(registry)
        source = GraphSource(str(entry.graph_path), registry, text=entry.graph_text)
        settings = ResourceSettings(
            entry.directory, options.graphs.cache_dir, options.graphs.cache_dir_size, entry.name
        )
        for node in source.validate().nodes:
            if task_of_node(node.calculator_type) is task:
                for module, message in task.first_messages(node, settings).items():
                    tell_early(module, message)
                return
    except BaseException as error:  # an author's calculator may raise any
        raise_interrupt(error)
        _log.debug("nothing is loaded early: %s", type(error).__name__)


def _entry_of(options: ServeOptions, task: Task, path: Path) -> GraphEntry | None:
    """Return the graph to be loaded; None if making it takes more than writing its text."""
    name = options.server.model_name
    graph = path / GRAPH_FILE if path.is_dir() else path
    if graph.is_file() and graph.suffix == Path(GRAPH_FILE).suffix:
        entry = find_graph(graph.parent, name)
        return replace(entry, graph_path=graph.absolute())
    if any(flag in options.of_task for flag in task.model_flags) or options.of_export:
        return None
    path = Path(os.path.abspath(path))
    directory = path if path.is_dir() else path.parent
    entry = find_graph(directory, name or (None if path.is_dir() else path.stem))
    text = graph_of_model(task, path, directory, options.of_task)
    return replace(entry, graph_text=text)
