"""Frames through MediaPipe's Python API, in an environment of its own.

Run by `bench.mediapipe_solutions`: ``python mediapipe_peer.py FRAMES.npy ROUNDS CLASSES``
prints one line of JSON per class. It imports nothing of this repository.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import mediapipe
import numpy as np

#: Frames before the measurement.
WARM = 5


def main() -> None:
    frames = np.load(sys.argv[1])
    rounds = int(sys.argv[2])
    solutions = mediapipe.solutions
    classes: dict[str, Any] = {
        "FaceDetection": solutions.face_detection.FaceDetection,
        "FaceMesh": solutions.face_mesh.FaceMesh,
        "Hands": solutions.hands.Hands,
        "Pose": solutions.pose.Pose,
        "SelfieSegmentation": solutions.selfie_segmentation.SelfieSegmentation,
        "Holistic": solutions.holistic.Holistic,
    }
    for name, arguments in json.loads(sys.argv[3]):
        with classes[name](**arguments) as solution:
            for frame in frames[:WARM]:
                solution.process(frame)
            times = []
            started, processor = time.perf_counter(), time.process_time()
            for _ in range(rounds):
                for frame in frames:
                    begun = time.perf_counter()
                    solution.process(frame)
                    times.append(time.perf_counter() - begun)
            seconds = time.perf_counter() - started
            processor = time.process_time() - processor
        row = {"name": name, "arguments": arguments, "times": times}
        print(json.dumps(row | {"seconds": seconds, "processor": processor}), flush=True)


if __name__ == "__main__":
    main()
