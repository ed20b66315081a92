"""The header ``Warning``: what a client should know of a request that was answered all the same.

Kubernetes answers unknown fields with the same header and code, so some clients show it. RFC 9111
has made the header obsolete for caches only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

NAME: Final = "Warning"
#: RFC 7234: a miscellaneous persistent warning.
_CODE: Final = 299


def with_warnings(headers: Mapping[str, str], warnings: Sequence[str]) -> dict[str, str]:
    """Return ``headers`` with the warnings, if there are any."""
    if not warnings:
        return dict(headers)
    return {**headers, NAME: ", ".join(map(_value, warnings))}


def _value(text: str) -> str:
    # A header has ASCII, without control characters; names of members may have anything.
    shown = text.encode("ascii", "backslashreplace").decode()
    shown = "".join(each if each.isprintable() else " " for each in shown)
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'{_CODE} graphrt "{quoted}"'
