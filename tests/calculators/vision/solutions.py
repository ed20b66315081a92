"""The mark of tests that need MediaPipe's models."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from calculators.kit.graph_directory import find_mediapipe_file

_MODEL: Final = "mediapipe/modules/pose_landmark/pose_landmark_full.tflite"

needs_models = pytest.mark.skipif(
    find_mediapipe_file(_MODEL, Path()) is None,
    reason="MediaPipe's models are not here: graphrt pull mediapipe",
)
