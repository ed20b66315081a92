"""`Report`: all sections, as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from servers.operations.doctor.devices import devices
from servers.operations.doctor.environment import environment
from servers.operations.doctor.machine import machine
from servers.operations.doctor.section import DoctorNote, Fact, Section
from servers.operations.doctor.software import software


@dataclass(frozen=True, slots=True)
class Report:
    """The facts for a bug report."""

    sections: Sequence[Section]

    @property
    def remarks(self) -> list[DoctorNote]:
        """All errors and warnings, errors first."""
        found = [remark for section in self.sections for remark in section.remarks]
        return sorted(found, key=lambda remark: remark.severity)

    @property
    def is_well(self) -> bool:
        return all(remark.severity != "error" for remark in self.remarks)

    def to_json(self) -> dict[str, Any]:
        return {
            **{section.title: section.facts for section in self.sections},
            "findings": [
                {"severity": each.severity, "message": each.message}
                | ({"hint": each.hint} if each.hint else {})
                for each in self.remarks
            ],
        }

    def to_text(self) -> str:
        """Return the report as text: a block per section, names of facts in a column."""
        blocks = [_block(section) for section in self.sections if section.facts]
        lines = [f"{each.severity}: {each.message}" + _hint(each) for each in self.remarks]
        blocks.append("\n".join(lines) if lines else "nothing wrong was found")
        return "\n\n".join(blocks)


def make_report(*more: Section) -> Report:
    """Make all sections, with ``more`` at the end. Takes seconds: OpenVINO is started."""
    return Report((software(), machine(), devices(), environment(os.environ), *more))


def _block(section: Section) -> str:
    width = max(map(len, section.facts))
    lines = [f"  {name:{width}}  {_text(fact)}" for name, fact in section.facts.items()]
    return "\n".join([section.title, *lines])


def _text(fact: Fact) -> str:
    if fact is None or fact == []:
        return "-"
    return " ".join(fact) if isinstance(fact, list) else str(fact)


def _hint(remark: DoctorNote) -> str:
    return f"\nhint: {remark.hint}" if remark.hint else ""
