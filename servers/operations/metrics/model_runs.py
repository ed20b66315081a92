"""What is counted of the inferences of one version of a plain model."""

from __future__ import annotations

from collections.abc import Callable

from calculators.openvino.model import Model
from servers.operations.metrics.ovms_families import OvmsFamilies


def watch_model(model: Model, ovms: OvmsFamilies) -> Callable[[], None]:
    """Count its inferences, whoever asks for them; what this returns ends the gauges."""
    labels = {"name": model.name, "version": str(model.version)}
    model.observe_times(ovms.wait_time.of(labels).note, ovms.inference_time.of(labels).note)
    ends = (
        ovms.streams.of(labels).follow(lambda: model.streams),
        ovms.queue_size.of(labels).follow(lambda: model.nireq),
        ovms.active.of(labels).follow(lambda: model.active),
    )

    def end() -> None:
        for each in ends:
            each()

    return end
