"""Paths of the checkout, for tests that read its files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: Conformance cases that may lie beside the checkout; tests skip if they are missing.
SHARED_CASES: Final = ROOT.parent / "shared" / "cases"
