"""JSON files of a model's directory as a model's process reads them, without `graph_runtime`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

#: Bytes of the largest file that is read: tokenizer.json of the largest known vocabularies has 40
#: million. As `graphrt_base.regular_file.MODEL_FILE_BYTES`, which would be slow to import.
_LARGEST: Final = 256 << 20


def read_model_json(file: Path, most_bytes: int = _LARGEST) -> dict[str, Any]:
    """Return the JSON object of a regular file; an empty one if there is none that can be read."""
    value = read_json_value(file, most_bytes)
    return value if isinstance(value, dict) else {}


def read_json_value(file: Path, most_bytes: int = _LARGEST) -> Any:
    """Return the JSON value of a regular file; None if there is none that can be read."""
    try:
        if not file.is_file() or file.stat().st_size > most_bytes:
            return None
        return json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
