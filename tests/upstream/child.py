"""Python code in a process that may die."""

from __future__ import annotations

import subprocess
import sys

#: Limits the memory that the code after it can allocate.
LIMITED = """
import resource
def limit(further):
    pages = int(open("/proc/self/statm").read().split()[0])
    size = pages * resource.getpagesize() + further
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the code; return how the process ended."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
