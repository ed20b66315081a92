"""Names of models on a hub: ``org/name[@revision][:file.gguf]``, or ``:Q4_K_M`` for a file.

Ollama's and llama.cpp's forms are read too: ``hf.co/org/name:Q4_K_M``, and ``:latest`` for no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final


class ModelError(Exception):
    """A model cannot be obtained from a hub, or exported. ``hint`` suggests a remedy."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


GGUF: Final = ".gguf"

#: Characters, and the length, that Hugging Face allows in the halves of a name.
_HALF: Final = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_HOST: Final = re.compile(r"\A(?:https?://)?(?:hf\.co|huggingface\.co)/")
#: Ollama's word for no choice.
_NEWEST: Final = "latest"
_QUANTIZATION: Final = re.compile(
    r"(?:UD-)?(?:I?Q\d\w*|T?Q\d_\d|B?F16|F32|MXFP4\w*|NVFP4\w*)", re.ASCII | re.IGNORECASE
)
_REFERENCE: Final = re.compile(
    rf"(?P<repository>{_HALF}/{_HALF})(?:@(?P<revision>[^@:\s]+))?(?::(?P<file>[^:]+))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ModelReference:
    """A model on a hub.

    Attributes:
        repository: ``org/name``.
        revision: a branch, a tag or a commit; None is the repository's default branch.
        file: the GGUF file that is the model, a path in the repository, or a quantization such as
            ``Q4_K_M``, which is a part of the file's name; None is the model that the whole
            repository holds.
    """

    repository: str
    revision: str | None = None
    file: str | None = None

    @property
    def quantization(self) -> str | None:
        """The quantization that is wanted; None if a file is named, or nothing."""
        return None if self.file is None or self.file.endswith(GGUF) else self.file

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{self.repository}{revision}" + (f":{self.file}" if self.file else "")


def read_reference(text: str) -> ModelReference | None:
    """Read a name; return None for other texts, such as paths.

    Raises:
        ModelError: the file is not a GGUF file, or its path leaves the repository.
    """
    found = _REFERENCE.fullmatch(_HOST.sub("", text))
    # The hub forbids both: its cache writes the slash of a name as two dashes.
    if found is None or ".." in found["repository"] or "--" in found["repository"]:
        return None
    file = found["file"]
    if file is not None:
        check_file_name(file)
        if file == _NEWEST:
            file = None
        elif not file.endswith(GGUF) and not _QUANTIZATION.fullmatch(file):
            raise ModelError(
                f'{text}: "{file}" is not a GGUF file, and no quantization',
                hint=f"the form is org/name[@revision][:file{GGUF}], or org/name:Q4_K_M",
            )
    return ModelReference(found["repository"], found["revision"], file)


def check_file_name(name: str) -> None:
    """Check that the name of a file, from a hub or a user, stays in its directory.

    Raises:
        ModelError: it is absolute, has a part ``..``, or a character that paths should not have.
    """
    path = PurePosixPath(name)
    if (
        not name
        or path.is_absolute()
        or ".." in path.parts
        or any(ord(character) < 0x20 or character in "\\:" for character in name)
    ):
        raise ModelError(f"{name!r} cannot be a file of a repository: it would leave the directory")
