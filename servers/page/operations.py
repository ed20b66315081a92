"""The last lines of the server's log, and its processes, as the page shows them."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from typing import Final

from calculators.kit.child_process.supervisor import running_children
from calculators.kit.memory import resident_bytes
from servers.page.events import LogLine, ProcessNow

#: Lines that are kept, and characters of one.
MOST_LINES: Final = 500
LINE_CHARS: Final = 2000
#: Its lines are prompts and answers (`--log_prompts`).
_OF_PROMPTS: Final = "graphrt.prompts"


class LastLines(logging.Handler):
    """Keeps the last lines of the log, without prompts and tracebacks.

    Attributes:
        count: the number of the newest line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == _OF_PROMPTS:
            return
        try:
            text = record.getMessage()
        except Exception:  # a mistake of the caller, which the log itself reports
            return
        # A traceback repeats what a calculator was given.
        if record.exc_info and record.exc_info[0] is not None:
            text += f" ({record.exc_info[0].__name__}; the traceback is in the log)"
        shown = "".join(_escaped(each) for each in text[:LINE_CHARS])
        number = self.count + 1
        self._lines.append(
            LogLine(number, round(record.created, 3), record.levelname, record.name, shown)
        )
        self.count = number

    def since(self, number: int) -> list[LogLine]:
        """Return the lines after a number, the oldest first."""
        # Other threads log meanwhile.
        return [line for line in self._lines.copy() if line.number > number]


def _escaped(character: str) -> str:
    """Return a character, escaped if it would move or turn the text beside it."""
    if character.isprintable() or character == "\n":
        return character
    return f"\\u{ord(character):04x}"


def processes_now() -> list[ProcessNow]:
    """Return the server's process and the children that it watches."""
    found = [ProcessNow("server", os.getpid(), time.process_time(), resident_bytes(os.getpid()))]
    for name, pid, seconds in running_children():
        found.append(ProcessNow(name, pid, seconds, resident_bytes(pid)))
    return found
