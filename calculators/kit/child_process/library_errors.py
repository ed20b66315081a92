"""Texts of libraries' exceptions, without paths of their build machines and of this machine.

`library_reason` is the text of one exception; `load_failure` says why a model could not be loaded,
with the file at fault.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from calculators.kit.child_process.lean_openvino import whole_tokenizers

_PREFIX: Final = re.compile(r"^(?:Caught exception:)? ?(?:Exception from .*?:\d+:?)?")
_NOISE: Final = re.compile(r"^(Check '.*' failed at .*:\d+:?|\[json\.exception.*?\]|\s*)$")
#: ``at file.cpp:123:`` with or without folders.
_PLACE: Final = re.compile(
    r"(?: at )?(?<![\w./\\+-])(?:[A-Za-z]:)?[\w./\\+-]*\.(?:cpp|cc|hpp|h)\b(?::\d+)*:?"
)
#: Folders of any file. Their names may have spaces, but not at the end: two paths in a sentence
#: remain two files.
_FOLDERS: Final = re.compile(r"(?<![\w.])(?:/[\w.+@-]+(?: +[\w.+@-]+)*)+/(?=[\w.+@-])")
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{6,}")
_LIMIT: Final = 400


def library_reason(error: BaseException | str) -> str:
    """Return one line for a client or a log: the library's own text, cleaned; never empty."""
    lines = [_PREFIX.sub("", line) for line in str(error).splitlines()]
    text = " ".join(line.strip() for line in lines if not _NOISE.match(line))
    text = _FOLDERS.sub("", _PLACE.sub(" ", text))
    text = " ".join(_ADDRESS.sub("an address", text).split())
    return text[:_LIMIT] or "the library gave no reason"


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
