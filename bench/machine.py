"""One line about the machine of a benchmark, without its name."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path


def describe_machine(*, with_day: bool = True) -> str:
    """Describe processor, cores, interpreter and day."""
    day = f", {datetime.now(UTC):%Y-%m-%d}" if with_day else ""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}{day}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
