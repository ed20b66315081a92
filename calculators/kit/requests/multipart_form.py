"""`MultipartForm`: the parsed body of a ``multipart/form-data`` request (RFC 7578)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FormFile:
    """One uploaded file.

    Attributes:
        filename: as the client wrote it, for messages and for the kind of the file only: it may be
            empty or have slashes.
        content_type: its media type in lower case, without parameters; "" if the client sent none.
        content: its bytes.
    """

    filename: str
    content_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class MultipartForm:
    """A form. A name may occur several times; values keep the order of the body.

    Attributes:
        fields: texts by name, among them ``model``.
        files: uploads by name.
    """

    fields: Mapping[str, list[str]] = field(default_factory=dict)
    files: Mapping[str, list[FormFile]] = field(default_factory=dict)
