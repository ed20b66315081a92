"""MediaPipe's solutions beside MediaPipe itself: the same results, and how fast.

    python -m bench.mediapipe_solutions agreement [--python PYTHON] [--write FILE]
    python -m bench.mediapipe_solutions speed --python PYTHON [--rounds N] [--write FILE]

``agreement`` compares with what MediaPipe has answered: its Python API on stills and sequences, its
engine on the graphs' own texts, and its engine node by node; with PYTHON also MediaPipe with
itself, by its two kernels on the same sequences. ``speed`` sends the same frames to the classes of
both in turns, one frame after the other, and to the classes here also by ``process_all``. PYTHON is
the interpreter of an environment with ``mediapipe==0.10.21``. Both need MediaPipe's models
(``graphrt pull mediapipe``) and the cases (`tests.corpora`).
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
from bench.mediapipe_agreement import engine, kernels, sequences, steps_table, stills, table
from bench.mediapipe_oracle import CASES, sequence
from calculators.vision import FaceDetection, FaceMesh, Hands, Holistic, Pose, SelfieSegmentation

_PEER: Final = Path(__file__).with_name("mediapipe_peer.py")
_KERNELS: Final = Path(__file__).with_name("mediapipe_kernels.py")
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


def agreement(python: str | None) -> Iterator[str]:
    """Return the lines of the tables of agreement."""
    yield "### Stills, beside MediaPipe's Python API\n"
    yield from table(stills())
    for kind in ("gentle", "leaves", "turns"):
        yield f"\n### Sequence: {kind}, beside MediaPipe's Python API\n"
        yield from table(sequences([kind]))
        if python is not None:
            yield f"\n### Sequence: {kind}, MediaPipe with XNNPACK beside MediaPipe with TFLite\n"
            yield from table(kernels(_by_kernels(python, kind)))
    yield "\n### Beside MediaPipe's engine on the graph's own text\n"
    yield from table(engine("pose") | engine("holistic"))
    yield "\n### Each node on the packets of MediaPipe's node\n"
    names = sorted(path.name[: -len(".jsonl.gz")] for path in (CASES / "traces").glob("*.gz"))
    yield from steps_table(names)


def speed(python: str, rounds: int) -> Iterator[str]:
    """Return the lines of the table of speed."""
    frames = np.stack(sequence("astronaut_gentle").frames)
    yield (
        "| solution | frames per second | all at once | MediaPipe | ratio | ratio, all at once | "
        "processor ms | MediaPipe's | ratio | median, p95 ms | MediaPipe's |"
    )
    yield "|" + "---|" * 11
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.npy"
        np.save(file, frames)
        for name, arguments in _MEASURED:
            label = ", ".join([name, *(f"{key}={value}" for key, value in arguments.items())])
            theirs, mine = [], []
            # In turns, since the machine is not always equally quick.
            for _ in range(rounds):
                theirs.append(_peer(python, file, name, arguments))
                mine.append(_measured(frames, name, arguments))
            yield f"| {label} | {' | '.join(_cells(mine, theirs))} |"


def _cells(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    """The cells of a solution: the best round of each."""
    here, at_once, there = (
        max(len(each["times"]) / each[seconds] for each in rows)
        for rows, seconds in ((mine, "seconds"), (mine, "at_once"), (theirs, "seconds"))
    )
    yield from (f"{here:.1f}", f"{at_once:.1f}", f"{there:.1f}")
    yield from (f"{here / there:.2f}", f"{max(here, at_once) / there:.2f}")
    own, peer = (
        min(1e3 * each["processor"] / len(each["times"]) for each in rows)
        for rows in (mine, theirs)
    )
    yield from (f"{own:.2f}", f"{peer:.2f}", f"{peer / own:.2f}")
    for rows in (mine, theirs):
        times = 1e3 * np.array(min((each["times"] for each in rows), key=np.median))
        yield "{:.1f}, {:.1f}".format(*np.percentile(times, [50, 95]))


def _by_kernels(python: str, kind: str) -> dict[str, tuple[Any, Any]]:
    """The landmarks of a sequence by MediaPipe's two kernels."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "frames.npy"
        np.save(file, np.stack(sequence(f"astronaut_{kind}").frames))
        words = [python, str(_KERNELS), str(file)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
    rows = map(json.loads, done.stdout.splitlines())
    return {name: (first, second) for name, first, second in rows}


def _peer(python: str, file: Path, name: str, arguments: dict[str, Any]) -> Any:
    words = [python, str(_PEER), str(file), "1", json.dumps([(name, arguments)])]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measured(frames: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with _CLASSES[name](**arguments) as solution:
        for frame in frames[:_WARM]:
            solution.process(frame)
        times = []
        started, processor = time.perf_counter(), time.process_time()
        for frame in frames:
            begun = time.perf_counter()
            solution.process(frame)
            times.append(time.perf_counter() - begun)
        seconds = time.perf_counter() - started
        processor = time.process_time() - processor
        for _ in solution.process_all(frames[:_WARM]):
            pass  # the threads and their graphs are made
        started = time.perf_counter()
        for _ in solution.process_all(frames):
            pass
        at_once = time.perf_counter() - started
    return {"times": times, "seconds": seconds, "processor": processor, "at_once": at_once}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("what", choices=["agreement", "speed"])
    parser.add_argument("--python", help="interpreter with mediapipe")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "speed" and not arguments.python:
        parser.error("speed needs --python")
    lines = (
        agreement(arguments.python)
        if arguments.what == "agreement"
        else speed(arguments.python, arguments.rounds)
    )
    written = [f"{describe_machine()}\n"]
    for line in lines:
        print(line, flush=True)
        written.append(line)
    if arguments.write is not None:
        arguments.write.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
