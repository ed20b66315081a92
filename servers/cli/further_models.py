"""Further models that options of a task name, such as a draft model: downloaded if necessary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calculators.kit.tasks import Task
from servers.cli.model_export import ExportOfPull, form_of
from servers.cli.model_repository import pull_model, reference_of
from servers.options.repository_options import ExportOptions


def with_further_models(
    options: Mapping[str, Any],
    task: Task,
    export: ExportOptions,
    repository: Path,
    directory: Path,
    *,
    overwrites: bool = False,
) -> dict[str, Any]:
    """Return a task's options with directories in place of the names of further models.

    A value may be a directory, also one that is relative to the graph's, or a name of a hub's
    model. A model in the directory of models is named relative to the graph, so that the whole
    directory may move.

    Args:
        options: the given options of tasks, by flag.
        repository: the directory of models.
        directory: the directory of the graph.

    Raises:
        CommandFailed: a model cannot be obtained.
    """
    found = dict(options)
    for flag in task.model_flags:
        value = found.get(flag)
        if not value or (directory / value).exists():
            continue
        if Path(value).exists():
            found[flag] = os.path.abspath(value)
            continue
        reference = reference_of(value)
        if reference is not None:
            form = form_of(export, options)
            further = ExportOfPull(reference, task, form, {})
            model = pull_model(reference, repository, further, overwrites=overwrites)
            found[flag] = os.path.relpath(model.path, directory)
    return found
