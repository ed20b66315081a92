"""Free memory of a process: little of it is kept, and it goes back to the system."""

from __future__ import annotations

import sys
from typing import Final

#: A value of ``GLIBC_TUNABLES`` for a child whose library allocates and frees in many threads. By
#: default glibc has up to 8 arenas per core: free memory of one serves no other, and what stays in
#: use is spread over all.
FEW_ARENAS: Final = "glibc.malloc.arena_max=2"


def return_free_memory() -> None:
    """Give free pages of the C library's heap back to the system, where it is glibc's.

    It keeps what lies below a block in use, which after large requests is nearly all of it. Takes
    up to tens of milliseconds without the interpreter's lock: for a thread.
    """
    if sys.platform == "linux":
        import ctypes  # here: a server that starts wants the constant alone

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
