"""The program that exports models: where it is, and which version."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from servers.export.errors import ExportError

INSTALL: Final = "pip install 'graphrt[export]'"
_PROGRAM: Final = "optimum-cli"
#: Distributions whose versions decide about the content of an export.
_DISTRIBUTIONS: Final = ("optimum_intel", "openvino", "nncf", "transformers")


@dataclass(frozen=True, slots=True)
class Exporter:
    """An installed exporter.

    Attributes:
        program: the path of ``optimum-cli``.
        versions: ``optimum_intel 1.27.0, openvino 2026.4.0, ...``; "" if unknown.
    """

    program: Path
    versions: str = ""

    @property
    def name(self) -> str:
        """The exporter in words, for messages."""
        return self.versions.partition(",")[0].replace("_", "-") or _PROGRAM


def find_exporter() -> Exporter | None:
    """Return the exporter on the path, else the one beside this interpreter; None: there is none.

    It may be in an environment of its own, as long as its program is on the path.
    """
    found = shutil.which(_PROGRAM) or shutil.which(_PROGRAM, path=str(Path(sys.executable).parent))
    if found is None:
        return None
    program = Path(found)
    return Exporter(program, _versions_beside(program.resolve()))


def missing_exporter(model: str) -> ExportError:
    """Return the error for a model that needs an exporter where there is none."""
    return ExportError(
        f"{model} holds safetensors, which must be exported to OpenVINO first", hint=INSTALL
    )


def _versions_beside(program: Path) -> str:
    """Return the versions in the environment of a program, from the names of its metadata."""
    versions: list[str] = []
    places = sorted(program.parent.parent.glob("lib/python3*/site-packages"))
    for name in _DISTRIBUTIONS:
        for place in places:
            for metadata in sorted(place.glob(f"{name}-*.dist-info")):
                found = re.fullmatch(rf"{name}-([^-]+)\.dist-info", metadata.name)
                if found is not None:
                    versions.append(f"{name} {found[1]}")
    return ", ".join(versions)
