"""Prompts and answers in the log, for operators who ask for them with ``--log_prompts``."""

from __future__ import annotations

import logging
from typing import Final

from calculators.kit.requests.request_record import RequestRecord

_log: Final = logging.getLogger("graphrt.prompts")

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
                _log.info(
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
