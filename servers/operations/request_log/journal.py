"""`RequestJournal`: begins the record of each request, and writes it down at its end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Protocol

from calculators.requests.request_record import GenerationRecord, RequestRecord, set_current_record
from servers.operations.request_log.request_end import RequestEnd
from servers.operations.request_log.request_texts import log_texts

_log: Final = logging.getLogger("graphrt.request")

# Of what a client chose and the log repeats.
_LONGEST_NAME: Final = 256


class Traces(Protocol):
    """Makes spans of requests. Both methods are called on the event loop."""

    def begin(self, record: RequestRecord, header: Callable[[str], str | None]) -> None:
        """Decide whether it is traced, and note that in the record.

        ``header``: the value of a header or of metadata by its name in lower case.
        """

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """One that is traced is over, at ``ended`` (``time.perf_counter_ns``)."""


class RequestJournal:
    """What both fronts tell of their requests: `begin`, then `end`, in the request's own task."""

    def __init__(self, traces: Traces | None = None, *, keeps_texts: bool = False) -> None:
        """``keeps_texts``: prompts and answers of language models go to the log."""
        self._traces = traces
        #: Told of each end as `Traces.end` is, for metrics.
        self.counts: Callable[[RequestRecord, RequestEnd, int], None] | None = None
        #: As `RequestRecord.forgets`.
        self.forgets: Callable[[RequestRecord, GenerationRecord], None] | None = None
        self._keeps_texts = keeps_texts

    def begin(
        self, request_id: str, header: Callable[[str], str | None], *, is_probe: bool = False
    ) -> RequestRecord:
        """A request's headers are complete; its record is the task's current one from now on.

        ``is_probe``: it only watches the server, and nobody wants a trace of it.
        """
        record = RequestRecord(request_id, keeps_texts=self._keeps_texts, forgets=self.forgets)
        if self._traces is not None and not is_probe:
            self._traces.begin(record, header)
        set_current_record(record)
        return record

    def end(self, record: RequestRecord, end: RequestEnd) -> None:
        """It is answered, or its client is gone."""
        set_current_record(None)
        ended = perf_counter_ns()
        # Beside a generation a line costs nothing, and its tokens are worth one.
        is_quiet = end.is_quiet and not record.generations
        level = logging.DEBUG if is_quiet else logging.INFO
        if _log.isEnabledFor(level):
            fields = _fields(record, end, (ended - record.began) / 1e6)
            _log.log(level, "%s", _shown(fields), extra={"fields": fields, "event": "request"})
        if record.keeps_texts:
            log_texts(record)
        if self._traces is not None and record.trace is not None:
            self._traces.end(record, end, ended)
        if self.counts is not None:
            self.counts(record, end, ended)


def _fields(record: RequestRecord, end: RequestEnd, milliseconds: float) -> dict[str, object]:
    """What a line tells, by the names that JSON lines have; only what is known."""
    fields: dict[str, object] = {"request_id": record.request_id, "method": end.method}
    if end.path:
        fields["path"] = end.path[:_LONGEST_NAME]
    if record.model:
        fields["model"] = record.model[:_LONGEST_NAME]
    fields["status"] = end.status
    if record.error:
        fields["error"] = record.error
    if record.reason:
        fields["reason"] = record.reason
    fields["milliseconds"] = round(milliseconds, 1)
    if end.request_bytes is not None:
        fields["request_bytes"] = end.request_bytes
    if end.response_bytes is not None:
        fields["response_bytes"] = end.response_bytes
    if record.generations:
        fields["prompt_tokens"] = record.prompt_tokens
        fields["completion_tokens"] = record.completion_tokens
    if record.trace_id:
        fields["trace_id"] = record.trace_id
    return fields


def _shown(fields: dict[str, object]) -> str:
    """``POST /v3/chat/completions 200 12.3 ms model=demo ... id``, in ASCII."""
    words = [str(fields["method"])]
    if "path" in fields:
        words.append(ascii(fields["path"])[1:-1])
    words += [str(fields["status"]), f"{fields['milliseconds']} ms"]
    if "error" in fields:
        words.append(f"error={fields['error']}")
    if "reason" in fields:
        words.append(f"reason={fields['reason']!a}")
    if "model" in fields:
        # In quotes: a name may have spaces, and look like the words after it.
        words.append(f"model={fields['model']!a}")
    for name in ("request_bytes", "response_bytes", "prompt_tokens", "completion_tokens"):
        if name in fields:
            words.append(f"{name}={fields[name]}")
    if "trace_id" in fields:
        words.append(f"trace_id={fields['trace_id']}")
    words.append(f"request_id={fields['request_id']}")
    return " ".join(words)
