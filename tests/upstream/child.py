"""Python code in a process that may die."""

from __future__ import annotations

import subprocess
import sys

#: The code that may follow it can take so much memory more and no more.
LIMITED = """
import resource
def limit(further):
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * resource.getpagesize() + further
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What became of it."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
