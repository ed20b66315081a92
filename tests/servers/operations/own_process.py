"""A process for functions that go through all objects of the heap, of which tests have millions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE


def in_own_process(function: Callable[[], object]) -> Any:
    """Call a function of a module in a new process, and return what it returns, through JSON."""
    program = (
        f"import json; from {function.__module__} import {function.__name__} as called; "
        "print(json.dumps(called()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
