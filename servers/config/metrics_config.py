"""The choice of published metrics: OpenVINO Model Server's flags, but on by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graph_runtime.errors import did_you_mean

#: OpenVINO Model Server's families that are always published.
DEFAULT: Final = (
    "ovms_current_requests",
    "ovms_requests_success",
    "ovms_requests_fail",
    "ovms_request_time_us",
    "ovms_streams",
    "ovms_inference_time_us",
    "ovms_wait_for_infer_req_time_us",
    "ovms_current_graphs",
    "ovms_requests_accepted",
    "ovms_requests_rejected",
    "ovms_responses",
    "ovms_graph_error",
    "ovms_graph_processing_time_us",
)
#: OpenVINO Model Server's families that are published only if they are named.
ADDITIONAL: Final = ("ovms_infer_req_queue_size", "ovms_infer_req_active")


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """The object ``monitoring.metrics``, or the flags for it.

    Attributes:
        enable: metrics are published.
        metrics_list: OpenVINO Model Server's families to publish; empty: its default ones. The
            families ``graphrt_...`` are always published.
    """

    enable: bool = True
    metrics_list: tuple[str, ...] = ()

    def shows(self, family: str) -> bool:
        """True if this family of OpenVINO Model Server's is published."""
        return family in (self.metrics_list or DEFAULT)


def refusal_of_list(names: Sequence[str]) -> str:
    """Return the error in a ``metrics_list``; "" if there is none."""
    known = (*DEFAULT, *ADDITIONAL)
    for place, name in enumerate(names):
        if name not in known:
            if name.startswith("graphrt_"):
                return (
                    f'Invalid name in metrics_list: "{name}"; the list is of the ovms_ families, '
                    f"and all graphrt_ families are always there"
                )
            return f'Invalid name in metrics_list: "{name}".{did_you_mean(name, known)}'
        if name in names[:place]:
            return f'Invalid name in metrics_list: "{name}" stands twice'
    return ""
