"""The command line: ``graphrt COMMAND ...``, or ``python -m servers.cli COMMAND ...``.

Standard output carries data, standard error everything else. Exit codes: 0 success, 1 failure, 2
wrong usage, 130 interrupted. The module of a command is imported when the command runs, so that
``--help`` is fast.
"""

from servers.cli.command_line import main

__all__ = ["main"]
