"""CPython 3.11: a reference taken by gc.get_objects breaks tuples under construction.

`servers.operations.process` counts the objects without releasing the interpreter's lock.
"""

from __future__ import annotations

import sys

import pytest

from tests.upstream.child import run

_LOOKED_AT = """
import gc
held = []
def parts():
    yield from range(100)
    held.append(gc.get_objects())
    yield from range(1000)
tuple(parts())
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="seen in 3.11")
def test_a_tuple_that_is_referenced_under_construction_is_a_system_error() -> None:
    done = run(_LOOKED_AT)
    assert done.returncode == 1
    assert "SystemError" in done.stderr
    assert "bad argument to internal function" in done.stderr
