"""The directory of models that were downloaded from a hub or exported, complete or in progress.

A model ``org/name`` is in ``<directory>/org/name``, as OpenVINO Model Server has it, with a file
`ORIGIN_FILE` that records its origin. Work in progress is in ``<directory>/.downloads`` and is
renamed when it is complete, so that a model's directory is always complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from graphrt_base.regular_file import read_regular_file
from servers.model_store.model_reference import ModelError, ModelReference

ORIGIN_FILE: Final = "graphrt_origin.json"
_DOWNLOADS: Final = ".downloads"
#: Bytes that stay free on a disk beside what a model takes.
_MARGIN: Final = 64 << 20
_ORIGIN_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelOrigin:
    """The origin of a model.

    Attributes:
        commit: of the repository, which names the content of all files.
        file: the GGUF file that was asked for by name.
        form: of the weights, as the hub has them.
        main_file: the GGUF file to load, in the model's directory.
        weights: the form of exported weights, ``int4 --sym``; None: they are as the hub has them.
        exporter: the versions that exported them; "" if unknown.
    """

    repository: str
    revision: str | None
    commit: str
    file: str | None
    form: str
    main_file: str | None = None
    weights: str | None = None
    exporter: str = ""

    def answers(self, reference: ModelReference) -> bool:
        """Return whether a reference names this model. The hub may have a newer commit."""
        return (
            self.repository == reference.repository
            and self.file == reference.file
            and reference.revision in (self.revision, self.commit)
        )


class ModelStore:
    """A directory of models."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def model_directory(self, reference: ModelReference) -> Path:
        """Return the directory of a model, which need not exist."""
        return self.directory / reference.repository

    def origin(self, reference: ModelReference) -> ModelOrigin | None:
        """Return the origin of the model with this name; None: there is none from a hub."""
        return read_origin(self.model_directory(reference))

    @contextmanager
    def staging(self, reference: ModelReference, commit: str) -> Iterator[Path]:
        """Lock and return the staging directory of a model that is being downloaded.

        Raises:
            ModelError: another process is downloading it.
        """
        name = f"{reference.repository}@{commit}".replace("/", "--")
        if reference.file is not None:
            name += f"--{reference.file.replace('/', '--')}"
        with self.workspace(name, f"another process is downloading {reference}") as directory:
            yield directory

    @contextmanager
    def workspace(self, name: str, busy: str) -> Iterator[Path]:
        """Lock and return a directory for work on one model; what it holds stays after the work.

        Args:
            busy: the error if another process works on it.

        Raises:
            ModelError: another process works on it.
        """
        # With the first download: servers of models that are here need none of it.
        from filelock import FileLock, Timeout

        downloads = self.directory / _DOWNLOADS
        downloads.mkdir(parents=True, exist_ok=True)
        lock = FileLock(downloads / f"{name}.lock")
        try:
            with lock.acquire(timeout=0):
                directory = downloads / name
                directory.mkdir(exist_ok=True)
                yield directory
        except Timeout:
            raise ModelError(busy, hint="wait until it has ended") from None

    def check_space(self, size: int) -> None:
        """Check that the disk has room for ``size`` more bytes.

        Raises:
            ModelError: it has not.
        """
        from servers.model_store.progress import size_text

        free = shutil.disk_usage(self.directory).free
        if size + _MARGIN > free:
            raise ModelError(
                f"{size_text(size)} more are needed in {self.directory}, where "
                f"{size_text(free)} are free",
                hint="free some space, or name another directory with --model_repository_path",
            )

    def publish(self, place: Path, staged: Path, origin: ModelOrigin) -> None:
        """Move a complete model to its directory in one step, replacing an older one."""
        (staged / ORIGIN_FILE).write_text(
            json.dumps(asdict(origin), indent=2) + "\n", encoding="utf-8"
        )
        place.parent.mkdir(parents=True, exist_ok=True)
        before = staged.with_name(f"{staged.name}.before")
        shutil.rmtree(before, ignore_errors=True)
        if place.exists():
            os.replace(place, before)
        os.replace(staged, place)
        shutil.rmtree(before, ignore_errors=True)


def read_origin(directory: Path) -> ModelOrigin | None:
    """Return the origin of the model in a directory; None if it was not downloaded."""
    try:
        data = json.loads(read_regular_file(directory / ORIGIN_FILE, _ORIGIN_BYTES))
        return ModelOrigin(**data)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
