"""Metrics of an encoder model: batches, tokens, and the wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from calculators.text.text_models.messages import Computed
from graph_runtime import NodeMetrics

_SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class TextModelMetrics:
    """Metrics of the batches of a node."""

    def __init__(self, metrics: NodeMetrics, in_flight: Callable[[], int]) -> None:
        """``in_flight``: the number of questions that wait or are computed."""
        self._sizes = metrics.histogram(
            "graphrt_text_batch_sequences", "Sequences that were computed together.", bounds=_SIZES
        )
        self._tokens = metrics.counter(
            "graphrt_text_tokens", "Tokens that were computed, without padding."
        )
        self._padded = metrics.counter(
            "graphrt_text_padded_tokens", "Tokens that were computed, with padding."
        )
        self._waits = metrics.histogram(
            "graphrt_text_queue_seconds",
            "Time that a sequence waited, from its tokens to the beginning of its batch.",
        )
        self.close = metrics.gauge(
            "graphrt_text_questions", "Questions that wait or are computed."
        ).follow(in_flight)

    def note_batch(self, batch: Computed) -> None:
        """Count a batch."""
        self._sizes.observe(len(batch.waits))
        self._tokens.add(batch.tokens)
        self._padded.add(batch.padded)
        for wait in batch.waits:
            self._waits.observe(wait)
