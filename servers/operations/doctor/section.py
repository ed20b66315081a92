"""`Section`: one part of the report, and what is wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: What JSON can carry.
Fact: TypeAlias = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class DoctorNote:
    """Something that is wrong, or may be. ``hint``: what would help; "" where nothing is known."""

    severity: Literal["error", "warning"]
    message: str
    hint: str = ""


@dataclass(slots=True)
class Section:
    """Facts by name, in the order in which they are shown."""

    title: str
    facts: dict[str, Fact] = field(default_factory=dict)
    remarks: list[DoctorNote] = field(default_factory=list)

    def error(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("error", message, hint))

    def warn(self, message: str, hint: str = "") -> None:
        self.remarks.append(DoctorNote("warning", message, hint))
