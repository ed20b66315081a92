"""The options of the task ``rerank``.

Names are OpenVINO Model Server's (``graph_export/rerank_graph_cli_parser.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.settings.declaration import TASK, option
from calculators.kit.settings.value_types import count
from calculators.kit.tasks.options import DeviceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankTaskOptions(DeviceOptions):
    """The options of the node that scores documents."""

    max_allowed_chunks: int = option(
        10000,
        "documents of a request, and chunks of all its documents; more get 400; default {default}",
        group=TASK,
        metavar="N",
        reads=count,
    )
