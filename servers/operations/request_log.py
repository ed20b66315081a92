"""One line in the log per request of any front, and its span, if it is traced."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final, Protocol

from msgspec import Struct

from calculators.kit.requests.request_record import (
    GenerationRecord,
    RequestRecord,
    set_current_record,
)
from calculators.kit.requests.unknown_members import UnknownMembers

_prompts_log: Final = logging.getLogger("graphrt.prompts")

#: Characters of one prompt or answer that are shown.
MAX_CHARS: Final = 100_000


def log_texts(record: RequestRecord) -> None:
    """Log a line per prompt and a line per answer, with the request's id."""
    for generation in record.generations:
        for kind, texts in (("prompt", generation.prompts), ("answer", generation.answers)):
            for number, text in enumerate(texts):
                fields = {
                    "request_id": record.request_id,
                    "model": record.model,
                    "node": generation.node,
                    "number": number,
                    kind: _shortened(text),
                }
                _prompts_log.info(
                    "%s %d of request_id=%s: %s",
                    kind,
                    number,
                    record.request_id,
                    _in_one_line(_shortened(text)),
                    extra={"fields": fields, "event": kind},
                )


def _in_one_line(text: str) -> str:
    # Other control characters are escaped where lines are written.
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _shortened(text: str) -> str:
    left = len(text) - MAX_CHARS
    return text if left <= 0 else f"{text[:MAX_CHARS]}... ({left} more characters)"


class RequestEnd(Struct, frozen=True):
    """A front's account of a request that is over.

    Attributes:
        protocol: "http" or "grpc".
        method: GET, POST; for gRPC the full name, ``inference.GRPCInferenceService/ModelInfer``.
        path: the path without its query, where people put keys; "" for gRPC.
        route: the path with placeholders for names that clients choose; "" if nothing is served
            there.
        status: 200, 499 for a client that left before its answer; OK, NOT_FOUND.
        is_failure: the server failed.
        is_quiet: the request is frequent: health, metrics, a small inference that succeeded.
        is_watching: it was a stream of what runs, which lasts as long as its client looks.
        scheme: http or https; "" for gRPC, and without a trace.
        request_bytes, response_bytes: sizes of bodies; None if they are not known.
    """

    protocol: str
    method: str
    path: str
    route: str
    status: int | str
    is_failure: bool
    is_quiet: bool = False
    is_watching: bool = False
    scheme: str = ""
    request_bytes: int | None = None
    response_bytes: int | None = None


__all__ = ["RequestEnd", "RequestJournal", "Traces", "reason_for_log", "request_id_of"]


_log: Final = logging.getLogger("graphrt.request")

# Characters of a client's text that the log repeats.
_LONGEST_NAME: Final = 256
_COUNTS: Final = (
    "request_bytes",
    "response_bytes",
    "prompt_tokens",
    "completion_tokens",
    "shared_tokens",
)
#: The last choices of models that a line shows.
_MOST_ROUTES: Final = 8
_LONGEST_REASON: Final = 200
#: Different warnings that are logged; clients choose the names in them.
MOST_WARNINGS: Final = 256
#: A member of a path that is a word; other names are the client's own.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}(?:\[\d{1,6}\])*", re.ASCII)
#: Request ids of clients that are harmless to repeat.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


class Traces(Protocol):
    """Makes spans of requests. Both methods are called on the event loop."""

    def begin(self, record: RequestRecord, header: Callable[[str], str | None]) -> None:
        """Decide whether a request is traced, and note that in its record.

        ``header``: returns the value of a header, or of metadata, by its name in lower case.
        """

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """End a traced request. ``ended``: the time, by ``time.perf_counter_ns``."""


class RequestWatcher(Protocol):
    """Receives every request of all fronts. Both methods are called on the event loop."""

    def begin_request(self, record: RequestRecord) -> None:
        """Begin a request, whose headers are complete."""

    def end_request(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """End a request. ``ended``: the time, by ``time.perf_counter_ns``."""


class RequestJournal:
    """The requests of all fronts: `begin`, then `end`, in the request's own task."""

    def __init__(
        self,
        traces: Traces | None = None,
        *,
        keeps_texts: bool = False,
        unknown_members: UnknownMembers = UnknownMembers.WARN,
    ) -> None:
        """
        Args:
            keeps_texts: log prompts and answers of language models.
            unknown_members: the rule for members of requests that are not known.
        """
        self._traces = traces
        #: Called at each end like `Traces.end`, for metrics.
        self.counts: Callable[[RequestRecord, RequestEnd, int], None] | None = None
        #: Sees requests from their begins on, for the page.
        self.watcher: RequestWatcher | None = None
        #: See `RequestRecord.forgets`.
        self.forgets: Callable[[RequestRecord, GenerationRecord], None] | None = None
        self._keeps_texts = keeps_texts
        self._unknown_members = unknown_members
        self._warned: set[str] = set()

    def begin(
        self, request_id: str, header: Callable[[str], str | None], *, is_probe: bool = False
    ) -> RequestRecord:
        """Begin a request, whose headers are complete. Its record becomes the task's current one.

        ``is_probe``: the request comes from monitoring and is not traced.
        """
        record = RequestRecord(
            request_id,
            keeps_texts=self._keeps_texts,
            unknown_members=self._unknown_members,
            forgets=self.forgets,
        )
        if self._traces is not None and not is_probe:
            self._traces.begin(record, header)
        if self.watcher is not None and not is_probe:
            self.watcher.begin_request(record)
        set_current_record(record)
        return record

    def end(self, record: RequestRecord, end: RequestEnd) -> None:
        """End a request: it is answered, or its client is gone."""
        set_current_record(None)
        ended = perf_counter_ns()
        # A line costs nothing compared with a generation, and its token counts are worth one.
        is_quiet = end.is_quiet and not record.generations
        level = logging.DEBUG if is_quiet else logging.INFO
        if _log.isEnabledFor(level):
            fields = _fields(record, end, (ended - record.began) / 1e6)
            _log.log(level, "%s", _shown(fields), extra={"fields": fields, "event": "request"})
        if record.warnings:
            self._log_warnings(record)
        if record.keeps_texts:
            log_texts(record)
        if self._traces is not None and record.trace is not None:
            self._traces.end(record, end, ended)
        if self.counts is not None:
            self.counts(record, end, ended)
        if self.watcher is not None:
            self.watcher.end_request(record, end, ended)

    def _log_warnings(self, record: RequestRecord) -> None:
        """Log each warning once, up to a number of different ones."""
        for text in record.warnings:
            kind = record.without_places(text)
            if kind not in self._warned and len(self._warned) < MOST_WARNINGS:
                self._warned.add(kind)
                _log.warning(
                    "a request for model=%a: %s; the same is not logged again",
                    record.model[:_LONGEST_NAME], ascii(text)[1:-1],
                )  # fmt: skip


def _fields(record: RequestRecord, end: RequestEnd, milliseconds: float) -> dict[str, object]:
    """Return the known facts of a line by the names of JSON lines."""
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
        if record.shared_tokens:
            fields["shared_tokens"] = record.shared_tokens
    if record.routes:
        fields["route"] = ",".join([route.name for route in record.routes[-_MOST_ROUTES:]])
    if record.trace_id:
        fields["trace_id"] = record.trace_id
    return fields


def _shown(fields: dict[str, object]) -> str:
    """Return ``POST /v3/chat/completions 200 12.3 ms model=demo ... id``, in ASCII."""
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
    if "route" in fields:
        words.append(f"route={fields['route']!a}")
    for name in _COUNTS:
        if name in fields:
            words.append(f"{name}={fields[name]}")
    if "trace_id" in fields:
        words.append(f"trace_id={fields['trace_id']}")
    words.append(f"request_id={fields['request_id']}")
    return " ".join(words)


def request_id_of(sent: str | None) -> str:
    """Return the client's ``x-request-id`` if it is harmless to repeat, else a new id."""
    if sent is not None and _REQUEST_ID.fullmatch(sent):
        return sent
    return os.urandom(16).hex()


def reason_for_log(code: str, param: str | None, detail: str) -> str:
    """Return the reason of a refusal for the log: ``temperature: 3 is above the maximum 2``.

    Args:
        code: the reason if there is no ``detail``.
        param: the path of the field at fault; members that are not words are left out.
        detail: a text that repeats nothing of the request except numbers.
    """
    said = detail or code
    if param is None:
        return said[:_LONGEST_REASON]
    words = (
        each if _WORD.fullmatch(each) else "..." for each in param[:_LONGEST_REASON].split(".")
    )
    return f"{'.'.join(words)}: {said}"[:_LONGEST_REASON]
