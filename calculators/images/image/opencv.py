"""OpenCV, an optional dependency, loaded when the first image needs it, and missed before."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from calculators.kit.installed_points import is_installed
from graph_runtime import Code, GraphError

_MISSING: Final = "this needs OpenCV, which is not installed: pip install 'graphrt[images]'"


def check_opencv() -> None:
    """Check in a node's contract that OpenCV can be loaded later. Imports nothing.

    Raises:
        GraphError: it is not installed (FAILED_PRECONDITION).
    """
    if not is_installed("cv2"):
        raise GraphError(_MISSING, code=Code.FAILED_PRECONDITION)


@cache
def opencv() -> Any:
    """Return the module ``cv2``.

    Raises:
        GraphError: it is not installed (FAILED_PRECONDITION).
    """
    try:
        # With the first image, and below version 5, which interpolates differently: users compare
        # pixels with MediaPipe's (decision 0030).
        import cv2
    except ImportError as error:
        raise GraphError(_MISSING, code=Code.FAILED_PRECONDITION) from error
    # Its own threads would compete with the inference for the same cores.
    cv2.setNumThreads(1)
    # Errors of a client's image are reported to the client.
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
    return cv2
