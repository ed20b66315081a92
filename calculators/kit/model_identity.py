"""`model_identity`: the identity of a model that is loaded from files, for `SharingInitializer`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from graph_runtime import ResourceError, identity_of
from graphrt_base.regular_file import check_regular_file

#: Endings of files beside a model that do not belong to it: people edit graphs and calculators
#: there, a server may write its log, and OpenVINO its cache of compiled models.
_OTHERS: Final = frozenset(
    {".pbtxt", ".binarypb", ".py", ".pyc", ".md", ".log", ".blob", ".cl_cache"}
)
#: Folders in folders of a model: its parts, and the settings of each part.
_DEPTH: Final = 2
#: The most files of a model; a directory with more is something else, which takes long to walk.
_MOST_FILES: Final = 10_000
#: Libraries that read the files, in processes of their own.
_LIBRARIES: Final = ("openvino", "openvino-genai", "openvino-tokenizers")


def model_identity(*options: object, paths: tuple[Path, ...]) -> str | None:
    """Return the identity of a model; None if there are too many files. Reads the file system.

    Args:
        options: whatever else decides how the model is loaded; their ``repr`` counts.
        paths: its files, and directories, of which all files count that can belong to a model.
    """
    files = model_files(paths)
    if files is None:
        return None
    return identity_of(*options, *map(_version, _LIBRARIES), files=files)


def model_files(paths: Iterable[Path]) -> list[Path] | None:
    """Return these files, and all below directories that can belong to a model; None if there are
    too many."""
    files: list[Path] = []
    for path in paths:
        for file in _files_of(path):
            files.append(file)
            if len(files) > _MOST_FILES:
                return None
    return files


def check_model_files(paths: Iterable[Path]) -> None:
    """Check that a library can open the files of a model without waiting. Reads the file system.

    Libraries open whatever has the name of a file that they know, and a pipe has no end.

    Raises:
        ResourceError: one is a pipe, a socket or a device.
    """
    for file in model_files(paths) or ():
        try:
            check_regular_file(file)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ResourceError(f"{file.name} cannot be read: {error.strerror}") from None
            # What is missing or a directory is reported by the loader, which knows what it needs.


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        depth = len(Path(folder).relative_to(path).parts)
        folders[:] = [
            each for each in folders if depth < _DEPTH and not each.startswith((".", "_"))
        ]
        for name in names:
            if not name.startswith(".") and os.path.splitext(name)[1] not in _OTHERS:
                yield Path(folder, name)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
