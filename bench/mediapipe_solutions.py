"""MediaPipe's solutions beside MediaPipe itself: the same results, and how fast.

    python -m bench.mediapipe_solutions agreement [--write FILE]
    python -m bench.mediapipe_solutions speed --python PYTHON [--rounds N] [--write FILE]

``agreement`` compares with what MediaPipe has answered: its Python API on stills and sequences, its
engine on the graphs' own texts, and its engine node by node. ``speed`` sends the same frames to the
classes of both in turns, one frame after the other; PYTHON is the interpreter of an environment
with ``mediapipe==0.10.21``. Both need MediaPipe's models (``graphrt pull mediapipe``) and the cases
beside the checkout (`bench.mediapipe_oracle`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.machine import describe_machine
from bench.mediapipe_agreement import engine, sequences, stills, table
from bench.mediapipe_oracle import CASES, sequence
from bench.mediapipe_steps import steps_table
from calculators.vision import FaceDetection, FaceMesh, Hands, Holistic, Pose, SelfieSegmentation

_PEER: Final = Path(__file__).with_name("mediapipe_peer.py")
_WARM: Final = 5
_CLASSES: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (FaceDetection, FaceMesh, Hands, Pose, SelfieSegmentation, Holistic)
}
_MEASURED: Final[list[tuple[str, dict[str, Any]]]] = [
    ("FaceDetection", {}),
    ("FaceDetection", {"model_selection": 1}),
    ("FaceMesh", {}),
    ("FaceMesh", {"refine_landmarks": True}),
    ("FaceMesh", {"static_image_mode": True}),
    ("Hands", {}),
    ("Hands", {"model_complexity": 0}),
    ("Pose", {}),
    ("Pose", {"enable_segmentation": True}),
    ("Pose", {"static_image_mode": True}),
    ("SelfieSegmentation", {}),
    ("SelfieSegmentation", {"model_selection": 1}),
    ("Holistic", {}),
    ("Holistic", {"enable_segmentation": True, "refine_face_landmarks": True}),
]


def agreement() -> Iterator[str]:
    """Return the lines of the tables of agreement."""
    yield "### Stills, beside MediaPipe's Python API\n"
    yield from table(stills())
    for kind in ("gentle", "leaves", "turns"):
        yield f"\n### Sequence: {kind}, beside MediaPipe's Python API\n"
        yield from table(sequences([kind]))
    yield "\n### Beside MediaPipe's engine on the graph's own text\n"
    yield from table(engine("pose") | engine("holistic"))
    yield "\n### Each node on the packets of MediaPipe's node\n"
    names = sorted(path.name[: -len(".jsonl.gz")] for path in (CASES / "traces").glob("*.gz"))
    yield from steps_table(names)


def speed(python: str, rounds: int) -> Iterator[str]:
    """Return the lines of the table of speed."""
    frames = np.stack(sequence("astronaut_gentle").frames)
    header = "| solution | graphrt | MediaPipe | ratio | cores | graphrt ms | MediaPipe ms |"
    yield header
    yield "|---|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.npy"
        np.save(file, frames)
        for name, arguments in _MEASURED:
            theirs = _peer(python, file, rounds, name, arguments)
            mine = _measured(frames, rounds, name, arguments)
            label = ", ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
            rates = [len(each["times"]) / each["seconds"] for each in (mine, theirs)]
            cores = [each["processor"] / each["seconds"] for each in (mine, theirs)]
            times = [
                "{:.1f}, {:.1f}".format(*(1e3 * np.percentile(each["times"], [50, 95])))
                for each in (mine, theirs)
            ]
            yield (
                f"| {label} | {rates[0]:.1f} | {rates[1]:.1f} | {rates[0] / rates[1]:.2f} | "
                f"{cores[0]:.2f}, {cores[1]:.2f} | {times[0]} | {times[1]} |"
            )


def _peer(python: str, file: Path, rounds: int, name: str, arguments: dict[str, Any]) -> Any:
    words = [python, str(_PEER), str(file), str(rounds), json.dumps([(name, arguments)])]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measured(frames: Any, rounds: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with _CLASSES[name](**arguments) as solution:
        for frame in frames[:_WARM]:
            solution.process(frame)
        times = []
        started, processor = time.perf_counter(), time.process_time()
        for _ in range(rounds):
            for frame in frames:
                begun = time.perf_counter()
                solution.process(frame)
                times.append(time.perf_counter() - begun)
        seconds = time.perf_counter() - started
        return {
            "times": times,
            "seconds": seconds,
            "processor": time.process_time() - processor,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=["agreement", "speed"])
    parser.add_argument("--python", help="interpreter with mediapipe, for speed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "speed" and not arguments.python:
        parser.error("speed needs --python")
    lines = (
        agreement() if arguments.what == "agreement" else speed(arguments.python, arguments.rounds)
    )
    written = [f"{describe_machine()}\n"]
    for line in lines:
        print(line, flush=True)
        written.append(line)
    if arguments.write is not None:
        arguments.write.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
