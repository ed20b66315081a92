"""Work of other projects, in an environment of their own: it imports nothing of this repository.

    PYTHON bench/other_python.py frames FRAMES.npy ROUNDS CLASSES
    PYTHON bench/other_python.py kernels FRAMES.npy
    PYTHON bench/other_python.py chains
    PYTHON bench/other_python.py speech LIBRARY MODEL THREADS WORKERS KIND FILE...

``frames`` and ``kernels`` are run by `bench.mediapipe_solutions` with MediaPipe's Python: frames
through the classes of its API, a line of JSON each; and MediaPipe beside itself, the same graph on
the same frames with its two kernels, a line per solution: the places of all landmarks with XNNPACK
and with TFLite's own kernels, null in frames without. ``chains``: those of `bench.graph_throughput`
through MediaPipe's Python binding, as rows of its table.

``speech`` is run by `bench.speech_to_text`: files of sound through faster-whisper or transformers,
the LIBRARY, as one JSON object: the texts, the seconds of each file alone, the processor seconds of
these, and the seconds of all files with WORKERS at once. KIND is CTranslate2's type of the weights.
"""

from __future__ import annotations

import importlib
import json
import re
import statistics
import sys
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

#: Frames before the measurement.
WARM = 5


def frames_through_classes(file: str, rounds: str, asked: str) -> None:
    """Print the times of frames through classes, which ``asked`` names with their arguments."""
    frames = np.load(file)
    solutions: Any = importlib.import_module("mediapipe").solutions
    classes: dict[str, Any] = {
        "FaceDetection": solutions.face_detection.FaceDetection,
        "FaceMesh": solutions.face_mesh.FaceMesh,
        "Hands": solutions.hands.Hands,
        "Pose": solutions.pose.Pose,
        "SelfieSegmentation": solutions.selfie_segmentation.SelfieSegmentation,
        "Holistic": solutions.holistic.Holistic,
    }
    for name, arguments in json.loads(asked):
        with classes[name](**arguments) as solution:
            for frame in frames[:WARM]:
                solution.process(frame)
            times = []
            started, processor = time.perf_counter(), time.process_time()
            for _ in range(int(rounds)):
                for frame in frames:
                    begun = time.perf_counter()
                    solution.process(frame)
                    times.append(time.perf_counter() - begun)
            seconds = time.perf_counter() - started
            processor = time.process_time() - processor
        row = {"name": name, "arguments": arguments, "times": times}
        print(json.dumps(row | {"seconds": seconds, "processor": processor}), flush=True)


# MediaPipe's kernels ------------------------------------------------------------------------------

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
    from mediapipe.python import packet_creator, packet_getter
    from mediapipe.python._framework_bindings import calculator_graph, timestamp

    srgb = importlib.import_module("mediapipe").ImageFormat.SRGB
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
            image_format=srgb,
            data=np.ascontiguousarray(frame),
        )
        at = timestamp.Timestamp(STEP * (place + 1))
        graph.add_packet_to_input_stream("image", image.at(at))
        graph.wait_until_idle()
    graph.close()
    return found


def compare_kernels(file: str) -> None:
    """Print the landmarks of all solutions by both kernels."""
    import mediapipe
    from mediapipe.python._framework_bindings import resource_util, validated_graph_config

    frames = np.load(file)
    package = Path(mediapipe.__file__).parent
    resource_util.set_resource_dir(str(package.parent))
    for name, (file, sides, streams) in SOLUTIONS.items():
        plan = validated_graph_config.ValidatedGraphConfig()
        plan.initialize(binary_graph_path=str(package / "modules" / f"{file}.binarypb"))
        text = plan.text_config
        own = re.sub(r"xnnpack \{\s*\}", "tflite { }", text)
        both = [landmarks(each, frames, sides, streams) for each in (text, own)]
        print(json.dumps([name, *both]), flush=True)


# Chains of nodes ----------------------------------------------------------------------------------

REPEATS = 5
CHAINS = ((1, 20_000), (10, 10_000), (50, 4_000))
EXECUTORS = (
    ("MediaPipe 0.10.21, default executor", ""),
    ("MediaPipe 0.10.21, application thread", 'executor { type: "ApplicationThreadExecutor" }'),
)


def chain(nodes: int, extra: str) -> str:
    lines = [
        f'node {{ calculator: "PassThroughCalculator" input_stream: "s{i}" '
        f'output_stream: "s{i + 1}" }}'
        for i in range(nodes)
    ]
    return "\n".join(['input_stream: "s0"', extra, *lines])


def send_packets(nodes: int, packets: int, extra: str) -> float:
    """Return the seconds for all packets through a chain."""
    from mediapipe.python import packet_creator
    from mediapipe.python._framework_bindings import calculator_graph, timestamp

    graph = calculator_graph.CalculatorGraph(graph_config=chain(nodes, extra))
    seen = [0]

    def count(stream: str, packet: Any) -> None:
        seen[0] += 1

    graph.observe_output_stream(f"s{nodes}", count)
    graph.start_run()
    packet = packet_creator.create_int(1)
    times = [timestamp.Timestamp(i) for i in range(packets)]
    add = graph.add_packet_to_input_stream
    started = time.perf_counter()
    for at in times:
        add("s0", packet, at)
    graph.wait_until_idle()
    elapsed = time.perf_counter() - started
    graph.close_all_packet_sources()
    graph.wait_until_done()
    assert seen[0] == packets
    return elapsed


def chains() -> None:
    """Print the rows of the table of chains."""
    for name, extra in EXECUTORS:
        for nodes, packets in CHAINS:
            times = sorted(send_packets(nodes, packets, extra) for _ in range(REPEATS))
            rates = sorted(packets / each for each in times)
            per_node = [each / packets / nodes * 1e6 for each in times]
            print(
                f"| {name} | {nodes} | {statistics.median(rates):,.0f} ({rates[0]:,.0f} to "
                f"{rates[-1]:,.0f}) | {statistics.median(per_node):.2f} ({per_node[0]:.2f} to "
                f"{per_node[-1]:.2f}) |"
            )
            sys.stdout.flush()


# Speech -------------------------------------------------------------------------------------------


def faster_whisper(model: str, threads: int, workers: int, kind: str) -> Callable[[str], str]:
    library: Any = importlib.import_module("faster_whisper")
    whisper = library.WhisperModel(
        model, device="cpu", compute_type=kind, cpu_threads=threads, num_workers=workers
    )

    def transcribe(file: str) -> str:
        segments, _ = whisper.transcribe(
            file,
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return "".join(each.text for each in segments)

    return transcribe


def transformers(model: str, threads: int, workers: int, kind: str) -> Callable[[str], str]:
    library: Any = importlib.import_module("transformers")
    torch: Any = importlib.import_module("torch")
    numpy: Any = importlib.import_module("numpy")
    torch.set_num_threads(threads)
    processor = library.WhisperProcessor.from_pretrained(model)
    whisper = library.WhisperForConditionalGeneration.from_pretrained(model).eval()

    def transcribe(file: str) -> str:
        with wave.open(file) as reader:
            rate, content = reader.getframerate(), reader.readframes(reader.getnframes())
        samples = numpy.frombuffer(content, "<i2").astype(numpy.float32) / 32768
        features = processor(samples, sampling_rate=rate, return_tensors="pt").input_features
        with torch.no_grad():
            ids = whisper.generate(features, num_beams=1, do_sample=False)
        return str(processor.batch_decode(ids, skip_special_tokens=True)[0])

    return transcribe


def speech(name: str, model: str, threads: str, workers: str, kind: str, *files: str) -> None:
    """Print the texts of files, and the times."""
    make = {"faster-whisper": faster_whisper, "transformers": transformers}[name]
    transcribe = make(model, int(threads), int(workers), kind)
    transcribe(files[0])
    alone, texts = [], []
    cpu = time.process_time()
    for file in files:
        began = time.perf_counter()
        texts.append(transcribe(file))
        alone.append(time.perf_counter() - began)
    processor = time.process_time() - cpu
    together = 0.0
    if int(workers) > 1:
        began = time.perf_counter()
        with ThreadPoolExecutor(int(workers)) as pool:
            list(pool.map(transcribe, files))
        together = time.perf_counter() - began
    result = {"texts": texts, "alone": alone, "processor": processor, "together": together}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {
        "frames": frames_through_classes,
        "kernels": compare_kernels,
        "chains": chains,
        "speech": speech,
    }
    commands[sys.argv[1]](*sys.argv[2:])
