"""The graph of a model, from its task and the options on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calculators.kit.control_groups import usable_memory
from calculators.kit.settings.declaration import SettingError, given, options_of
from calculators.kit.tasks import ModelToServe, Task, TaskError
from servers.cli.messages import CommandFailed


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
    """The options that were given by flag, by the names of the task's fields.

    Raises:
        CommandFailed: one is another task's, or its value cannot be used.
    """
    flags = {each.flag for each in options_of(task.options)}
    for flag in options:
        if flag not in flags:
            known = ", ".join(f"--{each}" for each in sorted(flags)) or "none"
            raise CommandFailed(
                f"--{flag} is no option of the task {task.name}, which has: {known}", status=2
            )
    try:
        return given(task.options, options)
    except SettingError as error:
        raise CommandFailed(str(error), status=2) from None
