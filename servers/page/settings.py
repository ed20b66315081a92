"""`PageSettings`: the page and its data, as the operator allows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The built files of the page, as they are shipped.
STATIC: Final = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class PageSettings:
    """The permissions of the page, after the defaults that depend on addresses and keys.

    Attributes:
        page: the page and its routes are served; otherwise their paths are 404.
        contents: texts of requests, values of packets and texts of files may be shown.
        edit: graphs may be checked and tried that are not served.
        operations: lines of the log and the server's processes may be shown.
        files: the folder with the built files.
    """

    page: bool = True
    contents: bool = False
    edit: bool = False
    operations: bool = False
    files: Path = STATIC
