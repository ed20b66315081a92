"""Where the checkout's files are, for tests that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
#: Conformance cases that may lie beside the checkout; tests skip what is not there.
SHARED_CASES: Final = ROOT.parent / "shared" / "cases"
