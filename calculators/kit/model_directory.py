"""The directory that a node's ``models_path`` names, and the JSON files in it, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calculators.kit.examples import find_path
from graph_runtime import ResourceError
from graphrt_base.regular_file import MODEL_FILE_BYTES, read_regular_file


def find_model_directory(models_path: str, graph: Path) -> Path:
    """Return the directory, absolute; ``graph`` is the directory of the graph.

    Raises:
        ResourceError: it is not a directory.
    """
    directory = find_path(models_path, graph)
    if not directory.is_dir():
        raise ResourceError(
            f'models_path: "{models_path}" is not a directory; it is relative to the directory of '
            f"the graph, absolute, or the name of a pulled model{_hint(models_path)}"
        )
    return directory


def _hint(models_path: str) -> str:
    if models_path.startswith("speech/"):
        return ": graphrt pull speech makes it"
    return ": graphrt pull ORG/NAME" if models_path.count("/") == 1 else ""


def read_checked_json(file: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file of the model; {} if there is no file, or no object in it.

    Raises:
        ResourceError: the file cannot be read, or is not JSON.
    """
    try:
        value = json.loads(read_regular_file(file, MODEL_FILE_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ResourceError(f"models_path: {file.name} cannot be read as JSON: {error}") from None
    return value if isinstance(value, dict) else {}
