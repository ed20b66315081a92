"""The model store of the commands: downloads into it, and exports of safetensors.

The modules of `servers.model_store` that do this work are imported when it begins: `graphrt serve`
of a model that is on the disk needs none of them.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.examples import default_store_directory
from calculators.kit.tasks import Task, installed_tasks, task_of_source
from calculators.kit.tasks.model_config import has_safetensors
from graph_runtime.errors import did_you_mean
from servers.cli.messages import CommandFailed, print_warning
from servers.cli.model_graph import beside, graph_of_model, task_options_of
from servers.model_store.model_reference import (
    ModelError,
    ModelReference,
    check_file_name,
    read_reference,
)
from servers.options.model_options import ExportOptions, check_combination

if TYPE_CHECKING:
    from servers.model_store.directory import ModelStore
    from servers.model_store.export import ExportRequest, WeightForm
    from servers.model_store.pull import Hub, PulledModel
    from servers.model_store.wanted_files import HubFile

_log: Final = logging.getLogger(__name__)


def form_of(options: ExportOptions, of_task: Mapping[str, Any]) -> WeightForm:
    """Return the form of exported weights for the options of a command.

    Args:
        of_task: the options of tasks that are given, by flag.

    Raises:
        CommandFailed: the options do not go together.
    """
    from servers.model_store.export import weight_form

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
    """The export of a model that is being pulled: `servers.model_store.pull.Preparation`.

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
        from servers.model_store.export import (
            check_format,
            find_exporter,
            missing_exporter,
            space_for,
        )

        exporter = find_exporter()
        if exporter is None:
            raise missing_exporter(str(self.reference))
        check_format(exporter, self.form)
        return space_for(size, self.form)

    def prepare(self, files: Path, place: Path) -> tuple[Path, str]:
        from servers.model_store.export import export, find_exporter, missing_exporter

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
        CommandFailed: the files do not tell the model's task, or an option does not fit the task.
        ModelError, OSError: as `servers.model_store.export.exported` raises them.
    """
    from servers.model_store.export import exported

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
        CommandFailed: the files do not tell the model's task, its task has no export, or an option
            does not fit the task.
    """
    from servers.model_store.export import ExportRequest, weights_in
    from servers.model_store.progress import size_text

    found = task or task_of_source(files)
    if found is None:
        names = ", ".join(each.name for each in installed_tasks())
        raise CommandFailed(
            f"{name}: its config.json does not show what the model is for",
            hint=f"start again with --task, one of {names}",
        )
    exported = found.export_arguments(files)
    if exported is None:
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
        *exported,
        *found.further_export_arguments(files, task_options_of(found, of_task)),
    )
    return found, ExportRequest(name, files, arguments, form)


def _report(text: str) -> None:
    """Log a line; print it where there is no log, as for `graphrt pull`."""
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info("%s", text)
    else:
        print(text, file=sys.stderr, flush=True)


def reference_of(word: str) -> ModelReference | None:
    """Read the name of a hub's model; return None for other words, such as paths.

    Raises:
        CommandFailed: the word names a file that cannot be a model's.
    """
    try:
        return read_reference(word)
    except ModelError as error:
        raise CommandFailed(str(error), hint=error.hint, status=2) from error


def store_directory(path: str | None) -> Path:
    """Return the directory of the model store: the given one, else the default."""
    return Path(path) if path else default_store_directory()


def read_source(source: str, gguf_filename: str | None) -> ModelReference:
    """Read the name of a hub's model with the options beside it.

    Raises:
        CommandFailed: it is not a name of a hub's model, or names two files.
    """
    if gguf_filename is not None:
        if ":" in source:
            raise CommandFailed(
                f"{source} names a file, and --gguf_filename {gguf_filename} another one",
                hint="leave one of them out",
                status=2,
            )
        source = f"{source}:{gguf_filename}"
    reference = reference_of(source)
    if reference is None:
        raise CommandFailed(
            f"{source} is not a name of a hub's model",
            hint="the form is org/name[@revision][:file.gguf]; "
            f"a model of this machine needs no pull: `graphrt serve {source}`",
            status=2,
        )
    return reference


def pull_model(
    reference: ModelReference,
    directory: Path,
    preparation: ExportOfPull,
    *,
    overwrites: bool = False,
) -> PulledModel:
    """Download a model into a model store unless it is there; export safetensors.

    Raises:
        CommandFailed: the hub does not have it, it cannot be exported, or the disk fails.
    """
    from servers.model_store.pull import pull

    with model_store_at(directory) as store:
        model = pull(reference, store, overwrites=overwrites, preparation=preparation)
    if preparation.is_asked and model.origin.weights is None:
        print_warning(
            f"--weight_format has no effect: {reference} is a model of {model.origin.form}, whose "
            "weights stay as they are"
        )
    return model


@contextmanager
def model_store_at(directory: Path) -> Iterator[ModelStore]:
    """Yield the model store at a directory; errors in the block become `CommandFailed`."""
    from servers.model_store.directory import ModelStore

    store = ModelStore(Path(os.path.abspath(directory)))
    try:
        yield store
    except ModelError as error:
        raise CommandFailed(str(error), hint=error.hint) from error
    except OSError as error:
        place = error.filename or store.directory
        raise CommandFailed(f"{place}: {error.strerror or error}") from error


def with_further_models(
    options: Mapping[str, Any],
    task: Task,
    export: ExportOptions,
    root: Path,
    directory: Path,
    *,
    overwrites: bool = False,
) -> dict[str, Any]:
    """Return a task's options with directories in place of the names of further models.

    A value may be a directory, also one that is relative to the graph's, or a name of a hub's
    model. All but absolute ones are named relative to the graph, so that the whole directory may
    move.

    Args:
        options: the given options of tasks, by flag.
        root: the model store.
        directory: the directory of the graph.

    Raises:
        CommandFailed: a model, or a file of a hub, cannot be obtained.
    """
    found = dict(task.with_files(options, _hub_files(task.hub_files(options), root, directory)))
    for flag in task.model_flags:
        value = found.get(flag)
        if not value or (directory / value).exists():
            continue
        if Path(value).exists():
            found[flag] = beside(value, directory)
            continue
        reference = reference_of(value)
        if reference is not None:
            form = form_of(export, options)
            further = ExportOfPull(reference, task, form, {})
            model = pull_model(reference, root, further, overwrites=overwrites)
            found[flag] = os.path.relpath(model.path, directory)
    return found


#: The folder beside a graph with its adapters from a hub, and the ending of their files.
_ADAPTERS: Final = "loras"
_ADAPTER_ENDING: Final = ".safetensors"


@dataclass(frozen=True, slots=True)
class _HubFile:
    """A file of a repository that a graph needs besides its model.

    Attributes:
        file: its path in the repository; "" is the repository's only adapter.
    """

    reference: ModelReference
    file: str

    @classmethod
    def of(cls, text: str) -> _HubFile:
        """Read ``org/name[@file]``.

        Raises:
            CommandFailed: it is none.
        """
        repository, _, file = text.partition("@")
        reference = reference_of(repository)
        if reference is None:
            raise CommandFailed(
                f"{text} is not a file of a hub",
                hint="the form is org/name or org/name@file",
                status=2,
            )
        return cls(reference, file)

    def path_in(self, directory: Path) -> Path | None:
        """Return the file if it is beside the graph of a directory."""
        folder = directory / _ADAPTERS / self.reference.repository
        if self.file:
            path = folder / self.file
            return path if path.is_file() else None
        found = sorted(folder.rglob(f"*{_ADAPTER_ENDING}"))
        return found[0] if len(found) == 1 else None


def check_hub_files(options: Mapping[str, Any], root: Path, directory: Path) -> None:
    """Check, before a model is downloaded, that the hub has the further files of its graph.

    Args:
        options: the given options of tasks, by flag.
        root: the model store.
        directory: the graph's, which need not exist.

    Raises:
        CommandFailed: it has not; the text says what it has.
    """
    texts = {text for task in installed_tasks() for text in task.hub_files(options)}
    wanted = [_HubFile.of(text) for text in sorted(texts)]
    missing = [each for each in wanted if each.path_in(directory) is None]
    if not missing:
        return
    from servers.model_store.pull import Hub

    with model_store_at(root):
        hub = Hub()
        for each in missing:
            _listed(hub, each)


def _hub_files(texts: Iterable[str], root: Path, directory: Path) -> dict[str, str]:
    """Return the path of each file of a hub, relative to a graph's directory; download it there
    unless it is there."""
    found: dict[str, str] = {}
    for text in texts:
        wanted = _HubFile.of(text)
        path = wanted.path_in(directory) or _downloaded(wanted, root, directory)
        found[text] = path.relative_to(directory).as_posix()
    return found


def _downloaded(wanted: _HubFile, root: Path, directory: Path) -> Path:
    from servers.model_store.progress import DownloadProgress
    from servers.model_store.pull import Hub, Transfer

    reference = wanted.reference
    with model_store_at(root) as store:
        hub = Hub()
        commit, file = _listed(hub, wanted)
        store.directory.mkdir(parents=True, exist_ok=True)
        store.check_space(file.size)
        name = f"{reference.repository}@{commit}--adapter".replace("/", "--")
        with store.workspace(name, f"another process is downloading {reference}") as place:
            title = f"pulling {file.name} of {reference}"
            with DownloadProgress(title, file.size) as progress:
                Transfer(hub, reference, commit, place, on_bytes=progress.add).read(file)
            target = directory / _ADAPTERS / reference.repository / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(place / file.name, target)
            shutil.rmtree(place, ignore_errors=True)
    return target


def _listed(hub: Hub, wanted: _HubFile) -> tuple[str, HubFile]:
    """Return the commit of a repository, and the wanted file of it.

    Raises:
        ModelError: there is no such file, or without a name several.
    """
    listing = hub.list_files(wanted.reference)
    adapters = [each for each in listing.files if each.name.endswith(_ADAPTER_ENDING)]
    names = [each.name for each in adapters]
    shown = ", ".join(names) or f"no {_ADAPTER_ENDING} file"
    if wanted.file:
        chosen = [each for each in adapters if each.name == wanted.file]
        if not chosen:
            near = did_you_mean(wanted.file, names)
            raise ModelError(
                f"{wanted.reference} has no file {wanted.file}.{near}", hint=f"it has {shown}"
            )
    else:
        chosen = adapters
        if len(chosen) != 1:
            raise ModelError(
                f"{wanted.reference} has {len(names)} {_ADAPTER_ENDING} files, not one adapter",
                hint=f"name one as {wanted.reference}@FILE; it has {shown}",
            )
    check_file_name(chosen[0].name)
    return listing.commit, chosen[0]
