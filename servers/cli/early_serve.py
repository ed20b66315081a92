"""The first part of `graphrt serve`: starts the model's processes before the server's imports.

The processes import for about as long as the server does. Where a second core is free, they and
the server are ready together. Nothing slow is imported before the processes are started, not even
`graph_runtime`. Then `first_load` sends them what to load, if that is known already, with as few
imports as possible.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from calculators.kit.child_process.early_start import end_untaken, start_early
from calculators.kit.tasks import Task, task_of_model, task_of_node

#: A larger configuration or graph is not read early: reading it takes longer than it saves.
_MOST_BYTES: Final = 8 << 20
_GRAPH_FILE: Final = "graph.pbtxt"
_CALCULATOR: Final = re.compile(r'\bcalculator\s*:\s*"([^"]+)"')


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    has_others = args.on is not None or (args.workers or 1) > 1  # other processes load the models
    sources = args.sources or [args.config_path or args.model_path or ""]
    # Workers and replicas start their children themselves (decision 0077).
    first = None if has_others else first_model(sources)
    try:
        if first is not None and first.task.processes:
            for module, environment in first.task.processes:
                # Half a second of the server's imports and 0.3 s of each child's were one after the
                # other, with one of two cores idle (decision 0065).
                start_early(module, environment)
            from servers.cli.first_load import tell_what_to_load

            # The message follows from the graph and the model's files, so the processes load beside
            # the imports too (decision 0077).
            tell_what_to_load(args, first.task, first.path)
        from servers.cli import serve

        return serve.execute(args)
    finally:
        end_untaken()


class FirstModel(NamedTuple):
    """The first model that a server will load: its graph or itself, and its task."""

    path: Path
    task: Task


def first_model(sources: list[str]) -> FirstModel | None:
    """Return the first model that a server will load and that has a task; a guess.

    A file that cannot be read counts as no model: the server reports the reason later.
    """
    try:
        for path in map(Path, sources):
            for each in _loaded_at_start(path):
                task = _task_of(each)
                if task is not None:
                    return FirstModel(each, task)
    except Exception:  # a task may raise any
        pass
    return None


def _loaded_at_start(path: Path) -> Iterator[Path]:
    """Yield a graph or model, or the graphs of a config.json."""
    if path.suffix != ".json":
        yield path
        return
    config = json.loads(_read(path))
    entries = config.get("mediapipe_config_list", []) if isinstance(config, dict) else []
    for entry in entries:
        if isinstance(entry, dict) and entry.get("load") != "on_demand":
            yield _graph_of(path.parent, entry)


def _graph_of(directory: Path, entry: dict[str, Any]) -> Path:
    base = directory / str(entry.get("base_path", entry.get("name", "")))
    return base / str(entry.get("graph_path", _GRAPH_FILE))


def _task_of(path: Path) -> Task | None:
    graph = path / _GRAPH_FILE if path.is_dir() else path
    if graph.suffix == ".pbtxt" and graph.is_file():
        names = _CALCULATOR.findall(_read(graph))
        return next(filter(None, map(task_of_node, names)), None)
    return task_of_model(path) if path.exists() else None


def _read(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a regular file of usual size, or no text.
    """
    if not path.is_file() or path.stat().st_size > _MOST_BYTES:
        raise ValueError("no regular file of usual size")
    return path.read_text(encoding="utf-8")
