"""The reason why a model could not be loaded, with the file at fault."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from calculators.kit.child_process.lean_openvino import whole_tokenizers
from calculators.kit.child_process.library_errors import library_reason

_NAMES: Final = (
    "openvino_model",
    "openvino_language_model",
    "openvino_text_embeddings_model",
    "openvino_vision_embeddings_model",
    "openvino_tokenizer",
    "openvino_detokenizer",
)


def load_failure(model_path: str, error: BaseException) -> str:
    """The `library_reason`, after the name of the unreadable file if the library names none."""
    reason = library_reason(error)
    directory = Path(model_path)
    if not directory.is_dir() or any(name in reason for name in _NAMES):
        return reason
    there = [name for name in _NAMES if (directory / f"{name}.xml").exists()]
    return next(filter(None, (_problem(directory / name) for name in there)), reason)


def _problem(file: Path) -> str:
    """Return the reason why the two files of a model cannot be read; "" if they can."""
    import openvino

    whole_tokenizers()

    try:
        openvino.Core().read_model(file.with_suffix(".xml"))
    except RuntimeError as error:
        return f"{file.name}.xml and {file.name}.bin: {library_reason(error)}"
    return ""
