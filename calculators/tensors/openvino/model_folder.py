"""Folders of models: one per version, in the layout of OpenVINO Model Server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The files that OpenVINO reads, in the order of OpenVINO Model Server.
SUFFIXES: Final = (".xml", ".onnx", ".pb", ".pdmodel", ".tflite")
NO_FILE: Final = f"has no file that ends in {', '.join(SUFFIXES)}"

#: The file of a TensorFlow model, which is read as a folder.
_SAVED_MODEL: Final = "saved_model.pb"


def versions_in(folder: Path) -> dict[int, Path]:
    """The folders of versions in a model's folder, by their numbers, in rising order."""
    if not folder.is_dir():
        return {}
    found = {
        int(path.name): path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdecimal() and int(path.name) > 0 and path.is_dir()
    }
    return dict(sorted(found.items()))


def model_in(folder: Path) -> Path | None:
    """The file or folder that OpenVINO can read in the folder of a version, or None."""
    if (folder / _SAVED_MODEL).is_file():
        return folder
    for suffix in SUFFIXES:
        found = sorted(folder.glob(f"*{suffix}"))
        if found:
            return found[0]
    return None
