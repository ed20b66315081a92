"""The graph of a model, from its task and the options on the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.machine import usable_memory
from calculators.kit.settings.declaration import SettingError, given_fields, options_of
from calculators.kit.tasks import ModelToServe, Task, TaskError, installed_tasks, task_of_model
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file
from servers.cli.messages import CommandFailed, print_warning
from servers.config.edit import replace_file
from servers.config.entries import GRAPH_FILE


def graph_of_model(task: Task, path: Path, directory: Path, options: Mapping[str, Any]) -> str:
    """Return the text of the graph that serves a model.

    Args:
        path: the model's directory or file, absolute.
        directory: the graph's directory: ``path``, or one above it.
        options: the given options of tasks, by flag.

    Raises:
        CommandFailed: an option is another task's, or its value cannot be used.
    """
    models_path = "./" if path == directory else path.relative_to(directory).as_posix()
    model = ModelToServe(path=path, models_path=models_path, memory=usable_memory())
    try:
        return task.graph(task_options_of(task, options), model)
    except TaskError as error:
        raise CommandFailed(str(error), status=2) from error


def task_options_of(task: Task, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that were given by flag, by the names of the task's fields.

    Raises:
        CommandFailed: one is another task's, or its value cannot be used.
    """
    flags = {each.flag for each in options_of(task.options)}
    for flag in options:
        if flag not in flags:
            known = ", ".join(f"--{each}" for each in sorted(flags)) or "none"
            raise CommandFailed(
                f"--{flag} is not an option of the task {task.name}, which has: {known}", status=2
            )
    try:
        return given_fields(task.options, options)
    except SettingError as error:
        raise CommandFailed(str(error), status=2) from None


def beside(model: str, directory: Path) -> str:
    """Return the path of a further model relative to the directory of a graph, so that both may
    move together.

    ``model``: relative to the graph, or else to the current directory; what neither has stays.
    """
    if (directory / model).exists() or not Path(model).exists():
        return model
    path = os.path.abspath(model)
    # In a directory that a link names, ".." leads elsewhere.
    is_plain = os.path.realpath(directory) == os.path.abspath(directory)
    return os.path.relpath(path, directory) if is_plain else path


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
    given = {
        flag: beside(value, directory) if value and flag in task.model_flags else value
        for flag, value in options.items()
    }
    text = graph_of_model(task, model, directory, given)
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
