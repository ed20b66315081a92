"""The time of files and batches.

Their limits outlive processes and restarts of the machine, so they are compared with the wall
clock. Nothing else is.
"""

from __future__ import annotations

import time


def unix_seconds() -> int:
    """Return Unix time in whole seconds, as OpenAI's objects have it."""
    return int(time.time())
