"""`Section`: one part of the report, with its errors and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: A value that JSON can express.
Fact: TypeAlias = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class DoctorNote:
    """An error or a warning. ``hint``: a remedy; "" if none is known."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


@dataclass(slots=True)
class Section:
    """Facts by name, in display order."""

    title: str
    facts: dict[str, Fact] = field(default_factory=dict)
    remarks: list[DoctorNote] = field(default_factory=list)

    def error(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("error", message, hint))

    def warn(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("warning", message, hint))
