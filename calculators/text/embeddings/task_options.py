"""The options of the task ``embeddings``.

Names are OpenVINO Model Server's (``graph_export/embeddings_graph_cli_parser.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.settings.declaration import TASK, option
from calculators.kit.settings.value_types import one_of, switch
from calculators.kit.tasks.options import DeviceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions(DeviceOptions):
    """The options of the node that computes embeddings; "" leaves a choice to the model's files."""

    pooling: str = option(
        "",
        "CLS, LAST or MEAN of a text's tokens; default as 1_Pooling/config.json says, else CLS",
        group=TASK,
        metavar="HOW",
        reads=one_of(("CLS", "LAST", "MEAN")),
    )
    normalize: bool = option(
        True,
        "embeddings of length 1; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
    truncate: bool = option(
        False,
        "cut off what is too long for the model, which is refused otherwise; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
