"""MediaPipe beside itself: the same graph on the same frames with its two kernels.

Run by `bench.mediapipe_solutions` in an environment of MediaPipe's own:
``python mediapipe_kernels.py FRAMES.npy`` prints a line of JSON per solution: the places of all
landmarks with XNNPACK and with TFLite's own kernels, null in frames without. It imports nothing of
this repository.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import mediapipe
import numpy as np
from mediapipe.python import packet_creator, packet_getter
from mediapipe.python._framework_bindings import (
    calculator_graph,
    resource_util,
    timestamp,
    validated_graph_config,
)

STEP = 33333
#: Graphs, their side packets, and streams of landmarks; True: of several faces or hands.
SOLUTIONS: dict[str, tuple[str, dict[str, Any], list[tuple[str, bool]]]] = {
    "face_mesh": (
        "face_landmark/face_landmark_front_cpu",
        {"num_faces": 1, "use_prev_landmarks": True, "with_attention": False},
        [("multi_face_landmarks", True)],
    ),
    "hands": (
        "hand_landmark/hand_landmark_tracking_cpu",
        {"num_hands": 2, "use_prev_landmarks": True, "model_complexity": 1},
        [("multi_hand_landmarks", True)],
    ),
    "pose": (
        "pose_landmark/pose_landmark_cpu",
        {"smooth_landmarks": True, "use_prev_landmarks": True, "model_complexity": 1},
        [("pose_landmarks", False)],
    ),
    "holistic": (
        "holistic_landmark/holistic_landmark_cpu",
        {"smooth_landmarks": True, "use_prev_landmarks": True, "model_complexity": 1},
        [
            ("pose_landmarks", False),
            ("face_landmarks", False),
            ("left_hand_landmarks", False),
            ("right_hand_landmarks", False),
        ],
    ),
}


def landmarks(
    text: str, frames: Any, sides: dict[str, Any], streams: list[tuple[str, bool]]
) -> list[dict[str, Any]]:
    """Return the places of each frame's landmarks, (n, 2) as lists, by the streams' names."""
    graph = calculator_graph.CalculatorGraph(graph_config=text)
    found: list[dict[str, Any]] = []
    for name, is_list in streams:

        def keep(stream: str, packet: Any, is_list: bool = is_list) -> None:
            read = packet_getter.get_proto_list if is_list else packet_getter.get_proto
            lists = read(packet) if is_list else [read(packet)]
            found[-1][stream] = [[each.x, each.y] for one in lists for each in one.landmark]

        graph.observe_output_stream(name, keep)
    makers = {bool: packet_creator.create_bool, int: packet_creator.create_int}
    graph.start_run({name: makers[type(value)](value) for name, value in sides.items()})
    for place, frame in enumerate(frames):
        found.append({})
        image = packet_creator.create_image_frame(
            image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(frame)
        )
        at = timestamp.Timestamp(STEP * (place + 1))
        graph.add_packet_to_input_stream("image", image.at(at))
        graph.wait_until_idle()
    graph.close()
    return found


def main() -> None:
    frames = np.load(sys.argv[1])
    package = Path(mediapipe.__file__).parent
    resource_util.set_resource_dir(str(package.parent))
    for name, (file, sides, streams) in SOLUTIONS.items():
        plan = validated_graph_config.ValidatedGraphConfig()
        plan.initialize(binary_graph_path=str(package / "modules" / f"{file}.binarypb"))
        text = plan.text_config
        own = re.sub(r"xnnpack \{\s*\}", "tflite { }", text)
        both = [landmarks(each, frames, sides, streams) for each in (text, own)]
        print(json.dumps([name, *both]), flush=True)


if __name__ == "__main__":
    main()
