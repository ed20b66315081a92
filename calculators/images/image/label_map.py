"""Names of the classes of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from calculators.kit.graph_directory import GRAPH_DIRECTORY, MissingFileError, find_graph_file
from graph_runtime import CalculatorContext, Code, GraphError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file


class Label(NamedTuple):
    """The name of a class, and one for people, if there is another."""

    name: str
    display_name: str | None = None


def label_file(cc: CalculatorContext, path: str) -> dict[int, Label]:
    """Return the labels of a text file with one per line; the first has id 0.

    A relative path is searched beside the graph, then in the working directory.

    Raises:
        MissingFileError: there is no such file.
        GraphError: the file is empty or not text (INVALID_ARGUMENT), or cannot be read
            (FAILED_PRECONDITION).
    """
    directory = cc.service(GRAPH_DIRECTORY)
    try:
        file = find_graph_file(path, directory or Path())
        lines = read_regular_file(file, MODEL_FILE_BYTES).decode().split("\n")
    except MissingFileError as error:
        raise MissingFileError(f"label_map_path: {error}", path) from error
    except OSError as error:
        raise GraphError(
            f'label_map_path: the file "{path}" cannot be read: {error.strerror}',
            code=Code.FAILED_PRECONDITION,
        ) from error
    except ValueError as error:
        raise GraphError(
            f'label_map_path: the file "{path}" is not UTF-8 text', code=Code.INVALID_ARGUMENT
        ) from error
    # Not ``splitlines``, which also cuts at form feeds and at Unicode's line ends.
    lines = [line.removesuffix("\r") for line in lines]
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise GraphError(
            f'label_map_path: the file "{path}" is empty; it has one label per line',
            code=Code.INVALID_ARGUMENT,
        )
    return {number: Label(line) for number, line in enumerate(lines)}


def with_label_file(
    cc: CalculatorContext, path: str, then: Callable[[dict[int, Label]], None]
) -> Awaitable[None] | None:
    """Call ``then`` with the labels of `label_file`, read in a thread beside an event loop.

    Returned from ``open``: errors are raised as by `label_file`.
    """
    if asyncio._get_running_loop() is None:
        then(label_file(cc, path))
        return None

    async def read() -> None:
        then(await asyncio.to_thread(label_file, cc, path))

    return read()


def label_items(items: Any) -> dict[int, Label]:
    """Return the labels of a field ``map<int64, LabelMapItem>``."""
    return {
        number: Label(item.name, item.display_name if item.HasField("display_name") else None)
        for number, item in items.items()
    }
