"""The options of the task ``text2speech``.

Names are OpenVINO Model Server's (``graph_export/t2s_graph_cli_parser.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calculators.kit.settings.declaration import TASK, option
from calculators.kit.settings.value_types import one_of
from calculators.kit.tasks.options import DeviceOptions

#: The vocoder that was published with SpeechT5.
DEFAULT_VOCODER: Final = "microsoft/speecht5_hifigan"


@dataclass(frozen=True, slots=True, kw_only=True)
class T2sOptions(DeviceOptions):
    """The options of the node that speaks, and of the export of its model."""

    model_type: str = option(
        "",
        "speecht5 or kokoro, to export a model that speaks; default as its config.json says",
        group=TASK,
        metavar="TYPE",
        reads=one_of(("speecht5", "kokoro")),
    )
    vocoder: str = option(
        DEFAULT_VOCODER,
        "a vocoder's directory or name, to export a model of SpeechT5; default {default}",
        group=TASK,
        metavar="MODEL",
    )
