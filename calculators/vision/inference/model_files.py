"""Files that graphs of models name, read once while they stay the same."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from calculators.kit.graph_directory import GRAPH_DIRECTORY, graph_file
from calculators.vision.inference.compiled_model import KEPT_MODELS, TfLiteModel
from graph_runtime import CalculatorContext, Code, GraphError, NotFoundError
from graphrt_base.regular_file import read_regular_file

#: More than any model that MediaPipe names; larger files are refused.
MAX_BYTES: Final = 1 << 30

#: Directories of graphs, and names of files in them that were read.
_known: Final[set[tuple[Path, str]]] = set()
_MOST_KNOWN: Final = 1024

#: The model in these bytes. Python keeps the hash of bytes, so the second look is quick.
tflite_model = lru_cache(maxsize=KEPT_MODELS)(TfLiteModel)


def read_graph_file(cc: CalculatorContext, path: str) -> bytes:
    """Return the content of a file that the graph names.

    A relative path is searched beside the graph and in the working directory, one of MediaPipe's
    own files (``mediapipe/...``) in the places of `calculators.kit.mediapipe_directory`.

    Raises:
        NotFoundError: there is no such file.
        GraphError: it cannot be read (FAILED_PRECONDITION).
    """
    directory = cc.service(GRAPH_DIRECTORY) or Path()
    file = graph_file(path, directory)
    try:
        found = os.stat(file)
        content = _content(file, found.st_ino, found.st_mtime_ns, found.st_size)
    except (FileNotFoundError, NotADirectoryError):
        if path.startswith("mediapipe/"):
            hint = "; graphrt pull mediapipe copies MediaPipe's models"
        else:
            hint = " beside the graph or in the working directory"
        raise NotFoundError(f'there is no file "{path}"{hint}') from None
    except OSError as error:
        raise GraphError(
            f'the file "{path}" cannot be read: {error.strerror}', code=Code.FAILED_PRECONDITION
        ) from error
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known.add((directory, path))
    return content


def must_wait(cc: CalculatorContext, *paths: str) -> bool:
    """Return whether files should be read beside an event loop: this is one, and some are new."""
    if asyncio._get_running_loop() is None:
        return False
    directory = cc.service(GRAPH_DIRECTORY) or Path()
    return any((directory, path) not in _known for path in paths)


def with_files(
    cc: CalculatorContext, paths: Sequence[str], then: Callable[[], None]
) -> Awaitable[None] | None:
    """Read files, beside an event loop if they are new to it, and call ``then``."""
    if not must_wait(cc, *paths):
        then()
        return None

    async def read() -> None:
        for path in paths:
            await asyncio.to_thread(read_graph_file, cc, path)
        then()

    return read()


@lru_cache(maxsize=KEPT_MODELS)
def _content(file: Path, inode: int, time: int, size: int) -> bytes:
    return read_regular_file(file, MAX_BYTES)
