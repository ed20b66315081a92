"""The options of the task ``speech2text``.

Names are OpenVINO Model Server's (``graph_export/s2t_graph_cli_parser.cpp``), and that of its
script ``export_model.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.settings.declaration import TASK, option
from calculators.kit.settings.value_types import switch
from calculators.kit.tasks.options import DeviceOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechToTextTaskOptions(DeviceOptions):
    """The options of the node that turns speech into text."""

    enable_word_timestamps: bool = option(
        False,
        "find the times of words, which takes more time and memory; default {default}",
        group=TASK,
        metavar="BOOL",
        reads=switch,
    )
