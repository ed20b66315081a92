"""Root without its power over permissions, for tests of files that may not be read or written.

Tests often run as root, for whom no file is closed. Without two of its capabilities root is an
owner like any other: mode 000 closes its files.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

#: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.
_POWERS: Final = (1, 2)
_VERSION: Final = 0x20080522
_PR_CAPBSET_DROP: Final = 24


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Set(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


@contextmanager
def without_powers() -> Iterator[None]:
    """Take the powers from this thread, and from threads that it starts meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Set * 2)()
    _check(libc.capget(ctypes.byref(header), sets))
    before = sets[0].effective
    try:
        for power in _POWERS:
            sets[0].effective &= ~(1 << power)
        _check(libc.capset(ctypes.byref(header), sets))
        yield
    finally:
        sets[0].effective = before
        _check(libc.capset(ctypes.byref(header), sets))


def give_up_powers() -> None:
    """Take the powers from the programs that this process starts, for ever."""
    libc = ctypes.CDLL(None, use_errno=True)
    for power in _POWERS:
        if os.geteuid() == 0:
            _check(libc.prctl(_PR_CAPBSET_DROP, power, 0, 0, 0))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
