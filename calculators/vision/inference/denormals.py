"""Denormal numbers as zeros while a model computes, as TFLite has it.

Numbers below 1.2e-38 take a processor many times longer than others, and some models make them out
of a picture: that of faces with attention is 10 % quicker so. OpenVINO's own setting holds for the
thread that compiles a model, for good, and for no other, so the mode is set around each inference.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

#: The mode's bits "flush to zero" and "denormals are zeros", and the place of the mode in the
#: environment that ``fegetenv`` writes on Linux for x86-64.
_ZEROS: Final = 0x8040
_MODE: Final = 7

_Environment = ctypes.c_uint32 * 16


@contextmanager
def denormals_are_zeros() -> Iterator[None]:
    """Let the calling thread take denormal numbers for zeros. Elsewhere than on x86-64: nothing."""
    library = _library()
    if library is None:
        yield
        return
    before = _Environment()
    library.fegetenv(before)
    meanwhile = _Environment.from_buffer_copy(before)
    meanwhile[_MODE] |= _ZEROS
    library.fesetenv(meanwhile)
    try:
        yield
    finally:
        library.fesetenv(before)


@cache
def _library() -> Any:
    """The C library's functions for the mode, None where its layout is not known."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        # Calls do not give up the interpreter's lock: they take nanoseconds.
        library = ctypes.PyDLL("libm.so.6")
        return library if hasattr(library, "fesetenv") else None
    except OSError:
        return None
