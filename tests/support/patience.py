"""The time after which tests report a hang."""

from __future__ import annotations

from typing import Final

#: Seconds. Nothing takes this long, even on a machine with twenty times more work than it can do,
#: so it distinguishes a hanging test from a slow one. Shorter than pytest's limit per test, so that
#: the test itself reports what it waited for.
PATIENCE: Final = 240.0
