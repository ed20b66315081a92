"""``graphrt doctor``: facts for bug reports about the machine, the software and a config.

Nothing here reads a request, a key or the value of a variable that may hold one.
"""

from servers.operations.doctor.report import Report, make_report

__all__ = ["Report", "make_report"]
