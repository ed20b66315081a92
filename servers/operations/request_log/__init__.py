"""One line in the log per request, whichever front it came through; its span, if it is traced."""

from servers.operations.request_log.journal import RequestJournal, Traces
from servers.operations.request_log.request_end import RequestEnd
from servers.operations.request_log.request_id import request_id_of

__all__ = ["RequestEnd", "RequestJournal", "Traces", "request_id_of"]
