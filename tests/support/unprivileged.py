"""Permissions that count: a thread of root that may not read what its mode forbids."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_VERSION = 0x20080522
#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of Linux.
_IGNORES_MODES = 1 << 1 | 1 << 2


@contextmanager
def modes_count() -> Iterator[None]:
    """Let modes of files count for this thread, as they do for everybody but root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield
        return
    if not sys.platform.startswith("linux"):
        pytest.skip("root reads everything here")
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0, os.strerror(ctypes.get_errno())
    before = data[0]
    data[0] = before & ~_IGNORES_MODES
    assert libc.capset(header, data) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        data[0] = before
        assert libc.capset(header, data) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def forbidden(path: Path) -> Iterator[None]:
    """Take all permissions from a file, and give them back."""
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        yield
    finally:
        path.chmod(mode)
