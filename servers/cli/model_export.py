"""Models of safetensors for `graphrt serve` and `graphrt pull`: exported on the way."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calculators.kit.tasks import Task, installed_tasks, task_of_source
from calculators.kit.tasks.model_config import has_safetensors
from servers.cli.messages import CommandFailed
from servers.cli.model_graph import graph_of_model, task_options_of
from servers.export.export import (
    ExportRequest,
    WeightForm,
    export,
    space_for,
    weight_form,
    weights_in,
)
from servers.export.exporter import find_exporter, missing_exporter
from servers.export.local_exports import exported
from servers.hub import ModelReference
from servers.hub.model_store import ModelStore
from servers.hub.progress import size_text
from servers.options.quantization import check_combination
from servers.options.repository_options import ExportOptions

_log: Final = logging.getLogger(__name__)


def form_of(options: ExportOptions, of_task: Mapping[str, Any]) -> WeightForm:
    """Return the form of exported weights for the options of a command.

    Args:
        of_task: the options of tasks that are given, by flag.

    Raises:
        CommandFailed: the options do not go together.
    """
    device = of_task.get("target_device") or ""
    form = weight_form(options.weight_format, options.extra_quantization_params, device=device)
    try:
        check_combination(form.weight_format, form.parameters)
    except ValueError as error:
        raise CommandFailed(str(error), status=2) from None
    return form


def is_safetensors(path: Path) -> bool:
    """Return whether a path is a model of safetensors that is not in OpenVINO's form yet."""
    return (
        path.is_dir()
        and (has_safetensors(path) or task_of_source(path) is not None)
        and not any(path.glob("openvino_*.xml"))
    )


@dataclass(frozen=True, slots=True)
class ExportOfPull:
    """The export of a model that is being pulled: `servers.hub.pull.Preparation`.

    Attributes:
        task: the task that the user named, or None.
        of_task: the options of tasks that are given, by flag.
    """

    reference: ModelReference
    task: Task | None
    form: WeightForm
    of_task: Mapping[str, Any]

    @property
    def weights(self) -> str:
        return str(self.form)

    @property
    def is_asked(self) -> bool:
        return self.form.is_asked

    def check(self, size: int) -> int:
        if find_exporter() is None:
            raise missing_exporter(str(self.reference))
        return space_for(size, self.form)

    def prepare(self, files: Path, place: Path) -> tuple[Path, str]:
        exporter = find_exporter()
        if exporter is None:
            raise missing_exporter(str(self.reference))
        _, request = _request(str(self.reference), files, self.task, self.form, self.of_task)
        return export(request, exporter, place), exporter.versions


def export_of_directory(
    directory: Path,
    task: Task | None,
    form: WeightForm,
    of_task: Mapping[str, Any],
    store: ModelStore,
    *,
    overwrites: bool,
) -> tuple[Path, Task]:
    """Return the export of a local directory, and the task of its model; make it if necessary.

    Args:
        task: the task that the user named, or None.
        of_task: the options of tasks that are given, by flag.

    Raises:
        CommandFailed: it does not show what it is for, or an option cannot be used.
        ExportError, HubError, OSError: as `servers.export.local_exports.exported` raises them.
    """
    directory = directory.resolve()
    chosen, request = _request(str(directory), directory, task, form, of_task)
    return exported(request, store, overwrites=overwrites), chosen


def _request(
    name: str,
    files: Path,
    task: Task | None,
    form: WeightForm,
    of_task: Mapping[str, Any],
) -> tuple[Task, ExportRequest]:
    """Return the export to make and its task, and log which form its weights get, and why.

    Raises:
        CommandFailed: the model does not show what it is for, its task is not exported, or an
            option cannot be used.
    """
    found = task or task_of_source(files)
    if found is None:
        names = ", ".join(each.name for each in installed_tasks())
        raise CommandFailed(
            f"{name}: its config.json does not show what the model is for",
            hint=f"start again with --task, one of {names}",
        )
    if found.export_arguments is None:
        raise CommandFailed(
            f"{name}: models for {found.name} are not exported here",
            hint="use a model in OpenVINO's form",
        )
    # Only to find wrong options now, and not after minutes.
    graph_of_model(found, files, files, of_task)
    why = "as asked" if form.is_asked else "the default: --weight_format chooses another"
    _report(
        f"{name}: safetensors of {size_text(weights_in(files))}, exported for {found.name} with "
        f"weights in {form} ({why})"
    )
    arguments = (
        *found.export_arguments(files),
        *found.further_export_arguments(files, task_options_of(found, of_task)),
    )
    return found, ExportRequest(name, files, arguments, form)


def _report(text: str) -> None:
    """Log a line; print it where there is no log, as for `graphrt pull`."""
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)
