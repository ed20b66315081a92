"""Metrics of an image node: images, steps, queue, restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from graph_runtime import NodeMetrics

#: Bounds of histograms in seconds, up to an hour.
_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)


class ImageMetrics:
    """The metrics of one node."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._ends: list[Callable[[], None]] = []
        self.images = metrics.counter("graphrt_images_drawn", "Images that were finished.")
        self.steps = metrics.counter("graphrt_image_steps", "Steps of denoising that were made.")
        self.cancelled = metrics.counter(
            "graphrt_image_requests_cancelled", "Requests that ended because their client went."
        )
        self.queue_seconds = metrics.histogram(
            "graphrt_image_queue_seconds",
            "Time that a request waited for its turn.",
            bounds=_SECONDS,
        )
        self.seconds = metrics.histogram(
            "graphrt_image_drawing_seconds",
            "Time from the turn of a request to its last image.",
            bounds=_SECONDS,
        )

    def follow(
        self,
        *,
        waiting: Callable[[], float],
        running: Callable[[], float],
        progress: Callable[[], float],
        is_up: Callable[[], float],
        restarts: Callable[[], float],
    ) -> None:
        """Publish values that are read when the metrics are; until `end`."""
        metrics = self._metrics
        self._ends = [
            metrics.gauge(
                "graphrt_image_requests_waiting", "Requests that wait for their turn."
            ).follow(waiting),
            metrics.gauge(
                "graphrt_image_requests_running",
                "Requests of which an image is being drawn: 1, and a large one.",
            ).follow(running),
            metrics.gauge(
                "graphrt_image_progress_ratio",
                "Part of the steps of the running request that is done, 0 to 1.",
            ).follow(progress),
            metrics.gauge(
                "graphrt_image_process_up", "Can the process that draws work now? 1 or 0."
            ).follow(is_up),
            metrics.counter(
                "graphrt_image_process_restarts",
                "How often the process that draws had to be started again.",
            ).follow(restarts),
        ]

    def end(self) -> None:
        """Stop publishing what is followed."""
        for end in self._ends:
            end()
        self._ends = []
