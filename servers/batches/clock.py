"""The time of files and batches.

Time limits of files and batches outlive processes and restarts of the machine, so they are compared
with the wall clock. No other time limits are.
"""

from __future__ import annotations

import time


def unix_seconds() -> int:
    """Return Unix time in whole seconds, as OpenAI's objects have it."""
    return int(time.time())
