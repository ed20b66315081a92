"""OpenVINO in a child process: its imports without what no child uses, and reasons of failures.

`import openvino` imports the model converter and its command line too: two thirds of the import's
time, and 15 MB. openvino_genai imports openvino_tokenizers, which converts tokenizers, to learn
where its library is: 0.08 seconds of processor time in each child (2026.4.1).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from calculators.kit.child_process.library_errors import library_reason

_CONVERTER: Final = "openvino.tools.ovc"
_TOKENIZERS: Final = "openvino_tokenizers"
#: Variables by which another library is chosen.
_CHOICES: Final = ("OV_TOKENIZER_PREBUILD_EXTENSION_PATH", "OpenVINO_DIR")


class _TokenizersPlace(ModuleType):
    """Stands for openvino_tokenizers until somebody wants more of it than ``_ext_path``."""

    _ext_path: Path

    def __getattr__(self, name: str) -> Any:
        return getattr(whole_tokenizers(), name)


def leave_out_converter() -> None:
    """Let the import of the converter fail, which `openvino` allows for. Call it before."""
    if _CONVERTER not in sys.modules:
        sys.modules[_CONVERTER] = None  # type: ignore[assignment]  # "not to be found"


def leave_out_tokenizers() -> None:
    """Answer openvino_genai's question without the import. Call it before the first tokenizer."""
    # An operator may have chosen another library by these variables; then the package itself
    # answers.
    if _TOKENIZERS in sys.modules or any(map(os.environ.get, _CHOICES)):
        return
    found = find_spec(_TOKENIZERS)
    for directory in (found.submodule_search_locations or ()) if found is not None else ():
        library = Path(directory, "lib", f"lib{_TOKENIZERS}.so")
        if library.is_file():
            place = _TokenizersPlace(_TOKENIZERS)
            place._ext_path = library
            sys.modules[_TOKENIZERS] = place
            return


def whole_tokenizers() -> ModuleType:
    """Import openvino_tokenizers itself; that teaches openvino the tokenizers' operations."""
    if isinstance(sys.modules.get(_TOKENIZERS), _TokenizersPlace):
        del sys.modules[_TOKENIZERS]
    return import_module(_TOKENIZERS)


_MODEL_NAMES: Final = (
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
    if not directory.is_dir() or any(name in reason for name in _MODEL_NAMES):
        return reason
    there = [name for name in _MODEL_NAMES if (directory / f"{name}.xml").exists()]
    return next(filter(None, (_problem(directory / name) for name in there)), reason)


def _problem(file: Path) -> str:
    """Return the reason why the two files of a model cannot be read; "" if they can."""
    import openvino

    # A tokenizer's files have operations of an extension that this process has left out so far.
    whole_tokenizers()

    try:
        openvino.Core().read_model(file.with_suffix(".xml"))
    except RuntimeError as error:
        return f"{file.name}.xml and {file.name}.bin: {library_reason(error)}"
    return ""
