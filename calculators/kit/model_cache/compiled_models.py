"""Entries for OpenVINO's own cache of compiled models, `CACHE_DIR`: a folder for each model.

OpenVINO neither bounds its cache nor guards it against a second process that writes the same file.
A folder of its own for each model, with the rules of `ModelCache`, does both. OpenVINO checks the
content of what it reads, so a wrong entry costs time and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from calculators.kit.model_cache.content_key import key_of
from calculators.kit.model_cache.model_cache import BeingMade, CacheEntry, ModelCache

#: OpenVINO's property for the folder.
PROPERTY: Final = "CACHE_DIR"
_KIND: Final = "compiled"
#: A compiled model is about as large as its weights: of 95 MB 135 (openvino 2026.4.1).
_GROWTH: Final = 1.5


def hold_compiled(
    cache: ModelCache,
    files: Iterable[Path],
    device: str,
    properties: Mapping[str, Any],
    *options: object,
) -> CacheEntry | None:
    """Return the entry of a model that is about to be compiled; reads files: for a thread.

    Once the model is compiled, call `finish`.

    Args:
        files: the model's files.
        device, properties, options: all that has an influence on the compiled model.

    Returns:
        None: compile without a cache. The operator's properties name another cache, the directory
        cannot be used, or another process compiles the same model now.
    """
    if PROPERTY in properties:
        return None
    found = list(files)
    try:
        key = key_of(found, device, sorted(properties.items()), *options)
        size = sum(file.stat().st_size for file in found)
        return cache.hold(_KIND, key, int(size * _GROWTH))
    except (BeingMade, OSError):  # a file that cannot be read is reported by whoever loads it
        return None


def compiling_with(properties: Mapping[str, Any], entry: CacheEntry | None) -> dict[str, Any]:
    """Return OpenVINO's properties with those that make it use an entry."""
    return {**properties, PROPERTY: str(entry.path)} if entry is not None else {**properties}


def finish(entry: CacheEntry | None) -> None:
    """Keep what OpenVINO has written, now that the model is compiled."""
    if entry is not None and not entry.is_complete and not entry.complete():
        entry.close()
