"""OpenVINO's import without its model converter, in child processes.

`import openvino` imports the converter and its command line too, which no child uses: two thirds of
the import's time, and 15 MB (openvino 2026.4.1).
"""

from __future__ import annotations

import sys
from typing import Final

_CONVERTER: Final = "openvino.tools.ovc"


def leave_out_converter() -> None:
    """Let the import of the converter fail, which `openvino` allows for. Call it before."""
    if _CONVERTER not in sys.modules:
        sys.modules[_CONVERTER] = None  # type: ignore[assignment]  # "not to be found"
