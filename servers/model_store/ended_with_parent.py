"""``python -I ended_with_parent.py PARENT PROGRAM ...``: a program for this process.

The process becomes the program, and Linux kills it when its parent ends, even by SIGKILL. This file
is run by its path and imports the standard library only: the program may belong to another
environment, whose search path must stay as it is.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *words = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)
    try:
        os.execv(words[0], words)
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
