"""The files that are indexed: found, read, and named as sources."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graphrt_base.regular_file import read_regular_file

#: The files of a directory that are indexed. A file that is named itself may have any name.
SUFFIXES: Final = (".md", ".markdown", ".rst", ".txt")
_MARKDOWN: Final = (".md", ".markdown")
#: Bytes of a file.
MAX_DOCUMENT_BYTES: Final = 64 << 20


class DocumentError(Exception):
    """A file that cannot be indexed; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that is to be indexed.

    Attributes:
        path: by which it is named as a source, with slashes.
        file: where it is.
    """

    path: str
    file: Path

    @property
    def is_markdown(self) -> bool:
        return self.file.suffix.lower() in _MARKDOWN


def find_documents(names: Iterable[str], root: Path) -> list[Document]:
    """Return the files of names, and those below the names of directories, in order, each once.

    Directories whose names begin with a dot are left out.

    Args:
        root: the directory that paths of sources are relative to. A file elsewhere keeps the path
            by which it was named.

    Raises:
        DocumentError: a name is no file or directory, or a directory has no such file.
    """
    found: dict[str, Document] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(_below(path))
            if not files:
                raise DocumentError(
                    f'"{name}" has no files with the endings {", ".join(SUFFIXES)}; name files '
                    "with other endings themselves"
                )
        elif path.exists():
            files = [path]
        else:
            raise DocumentError(f'"{name}": no such file or directory')
        for file in files:
            shown = _shown(file, root)
            found.setdefault(shown, Document(shown, file))
    return list(found.values())


def read_document(document: Document) -> tuple[str, str]:
    """Return the text of a file, its lines separated by ``"\\n"``, and the digest of its bytes.

    Raises:
        DocumentError: it cannot be read, or is not text.
    """
    try:
        content = read_regular_file(document.file, MAX_DOCUMENT_BYTES)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DocumentError(f'"{document.path}" cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise DocumentError(
            f'"{document.path}" is not text in UTF-8 (byte {error.start}): convert it first'
        ) from None
    if "\0" in text:
        raise DocumentError(f'"{document.path}" is not text: convert it first')
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines, hashlib.sha256(content).hexdigest()


def _below(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(folder, name)


def _shown(file: Path, root: Path) -> str:
    try:
        return file.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return file.as_posix()
