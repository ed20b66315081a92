"""Where the versions of a plain model are."""

from __future__ import annotations

from pathlib import Path

from calculators.openvino.model_folder import SUFFIXES, versions_in
from graph_runtime import Code, GraphError
from graph_runtime.regular_file import raise_if_exhausted
from servers.config import ModelEntry


def version_paths(entry: ModelEntry) -> dict[int, Path]:
    """The folder, or file, of each version that there is, in rising order.

    Raises:
        GraphError: why there is none (FAILED_PRECONDITION).
    """
    path = entry.base_path
    if entry.refusal:
        raise _error(entry.refusal)
    if path.is_file() and path.suffix in SUFFIXES:
        return {1: path}
    if not path.is_dir():
        raise _error(f'there is no directory "{path.name}", its base_path')
    try:
        found = versions_in(path)
    except OSError as error:
        raise_if_exhausted(error)
        raise _error(f'its base_path "{path.name}" cannot be read: {error.strerror}') from None
    if not found:
        raise _error(
            f'its base_path "{path.name}" has no folder of a version, such as 1, with a model in '
            f"it, and no graph.pbtxt"
        )
    return found


def _error(reason: str) -> GraphError:
    return GraphError(reason, code=Code.FAILED_PRECONDITION)
