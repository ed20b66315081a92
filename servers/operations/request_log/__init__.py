"""One line in the log per request of any front, and its span, if it is traced."""

from servers.operations.request_log.journal import (
    RequestJournal,
    Traces,
    reason_for_log,
    request_id_of,
)
from servers.operations.request_log.request_end import RequestEnd

__all__ = ["RequestEnd", "RequestJournal", "Traces", "reason_for_log", "request_id_of"]
