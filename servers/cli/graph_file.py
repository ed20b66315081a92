"""The graph.pbtxt that commands write beside a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.tasks import Task, installed_tasks, task_of_model
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.model_graph import graph_of_model
from servers.config.edit import replace_file
from servers.config.entry import GRAPH_FILE

_FIRST_WORDS: Final = "# Written by graphrt "
#: The first lines of graphs that commands have made: they may be written again.
_MADE: Final = (_FIRST_WORDS, "# File created with: OpenVINO Model Server")


def write_graph(
    model: Path, directory: Path, task: Task | None, options: Mapping[str, Any], *, command: str
) -> None:
    """Write the graph of a model's task into the model's directory, and say so.

    A graph that is there stays if no options are given.

    Args:
        model: the model's directory or file.
        task: None: the model shows it.
        options: the given options of tasks, by flag.
        command: the command that writes it, for the first line of the file.

    Raises:
        CommandFailed: the task is not known, an option cannot be used, or the graph that is there
            was written by hand.
    """
    graph = directory / GRAPH_FILE
    is_there = graph.exists()
    if is_there and not options:
        print(f"Graph: {GRAPH_FILE} is there already: {graph}")
        return
    task = task or task_of_model(model)
    if task is None:
        names = ", ".join(each.name for each in installed_tasks())
        raise CommandFailed(
            f"{directory}: it does not show what task the model is for; no {GRAPH_FILE} is written",
            hint=f"start again with --task, one of {names}",
        )
    text = graph_of_model(task, model, directory, options)
    if is_there:
        refuse_written_by_hand(graph)
        print_warning(f"{graph} is written again, with the options that were given")
    put_graph(graph, f"{command}, for {task.name}\n{text}")


def refuse_written_by_hand(graph: Path) -> None:
    """Raise `CommandFailed` if a graph's file is there and no command has made it."""
    if not graph.exists():
        return
    try:
        text = read_regular_file(graph, MODEL_FILE_BYTES).decode(errors="replace")
    except OSError as error:
        raise CommandFailed(f"{graph} cannot be read: {error.strerror}") from error
    if not text.startswith(_MADE):
        raise CommandFailed(
            f"{graph} was not written by graphrt, and is kept",
            hint="write the options into it, or move it away",
        )


def put_graph(graph: Path, text: str) -> None:
    """Write a graph's file at once, and say so; its first line goes on with ``text``."""
    try:
        replace_file(graph, f"{_FIRST_WORDS}{text}")
    except OSError as error:
        raise CommandFailed(f"{graph} cannot be written: {error.strerror}") from error
    print(f"Graph: {GRAPH_FILE} created in: {graph}")
