"""The command line: ``graphrt COMMAND ...``, or ``python -m servers.cli COMMAND ...``.

Standard output carries data, standard error everything else. Exit codes: 0 well, 1 failed, 2 wrong
usage, 130 interrupted. A command's module is imported when the command is called, so that help is
there at once.
"""

from servers.cli.command_line import main

__all__ = ["main"]
