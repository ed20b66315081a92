"""Metrics of a node with a speech model."""

from __future__ import annotations

from collections.abc import Callable

from graph_runtime import NodeMetrics


class SpeechMetrics:
    """Counts sounds and their durations."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self._node = metrics
        self._ends: list[Callable[[], None]] = []
        self._audio = metrics.counter(
            "graphrt_speech_audio_seconds", "Seconds of sound that were turned into text."
        )
        self._sounds = metrics.counter(
            "graphrt_speech_sounds", "Sounds that were turned into text."
        )
        self._queue = metrics.histogram(
            "graphrt_speech_queue_seconds", "Time that a sound waited for a free model."
        )
        self._work = metrics.histogram(
            "graphrt_speech_recognition_seconds",
            "Time from the beginning of a sound's recognition to its end.",
        )

    def waited(self, seconds: float) -> None:
        """Note how long a sound has waited for its turn."""
        self._queue.observe(seconds)

    def recognized(self, audio_seconds: float, seconds: float) -> None:
        """Note the end of a recognition, with the durations of the sound and of the work."""
        self._audio.add(audio_seconds)
        self._sounds.add()
        self._work.observe(seconds)

    def follow(
        self,
        *,
        waiting: Callable[[], float],
        restarts: Callable[[], float],
        is_up: Callable[[], float],
    ) -> None:
        """Publish what these functions return, until `end`."""
        gauge, counter = self._node.gauge, self._node.counter
        self._ends = [
            gauge("graphrt_speech_sounds_waiting", "Sounds that wait for a free model.").follow(
                waiting
            ),
            gauge("graphrt_speech_up", "Can a sound be recognized now? 1 or 0.").follow(is_up),
            counter(
                "graphrt_speech_process_restarts",
                "How often a process with the model had to be started again.",
            ).follow(restarts),
        ]

    def end(self) -> None:
        """Stop publishing; called once the models are closed."""
        for each in self._ends:
            each()
        self._ends.clear()
