"""MediaPipe's solutions beside MediaPipe itself: the same results, and how fast.

    python -m bench.mediapipe_solutions agreement [--python PYTHON] [--write FILE]
    python -m bench.mediapipe_solutions speed --python PYTHON [--rounds N] [--write FILE]
    python -m bench.mediapipe_solutions graphs CHECKOUT [--write FILE]

``agreement`` compares with what MediaPipe has answered: its Python API on stills and sequences, its
engine on the graphs' own texts, and its engine node by node; with PYTHON also MediaPipe with
itself, by its two kernels on the same sequences. ``speed`` sends the same frames to the classes of
both in turns, one frame after the other, and to the classes here also by ``process_all``. PYTHON is
the interpreter of an environment with ``mediapipe==0.10.21``. Both need MediaPipe's models
(``graphrt pull mediapipe``) and the cases (`tests.corpora`).

``graphs`` counts MediaPipe's own graphs that load here, and the calculators that the others lack.
CHECKOUT is a working tree of MediaPipe's repository. Counted are the graphs with nodes of
``mediapipe/modules``, ``graphs`` and ``examples/desktop`` that need no GPU: none of their nodes,
streams and delegates is on one. Subgraphs are this repository's; those it does not have are
registered from the checkout under the names in its ``BUILD`` files.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.machine import add_write, describe_machine, head, publish, row, run_command
from bench.mediapipe_agreement import engine, kernels, sequences, steps_table, stills, table
from bench.mediapipe_oracle import CASES, registry, sequence
from calculators.vision import FaceDetection, FaceMesh, Hands, Holistic, Pose, SelfieSegmentation
from graph_runtime import GraphError, Registry, parse_graph_text, validate_graph

_PEER: Final = Path(__file__).with_name("other_python.py")
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
    yield f"{describe_machine()}\n"
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
    yield f"{describe_machine()}\n"
    frames = np.stack(sequence("astronaut_gentle").frames)
    columns = ["solution", "frames per second", "all at once", "MediaPipe", "ratio"]
    columns += ["ratio, all at once", "processor ms", "MediaPipe's", "ratio"]
    yield from head(*columns, "median, p95 ms", "MediaPipe's")
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
            yield row(label, *_cells(mine, theirs))


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
        words = [python, str(_PEER), "kernels", str(file)]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
    rows = map(json.loads, done.stdout.splitlines())
    return {name: (first, second) for name, first, second in rows}


def _peer(python: str, file: Path, name: str, arguments: dict[str, Any]) -> Any:
    words = [python, str(_PEER), "frames", str(file), "1", json.dumps([(name, arguments)])]
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


# MediaPipe's graphs -------------------------------------------------------------------------------

_FOLDERS: Final = ("modules", "graphs", "examples/desktop")
_NODE: Final = re.compile(r"\bnode\b\s*:?\s*\{")
_GPU: Final = re.compile(
    r'calculator: "[^"]*(?:Gpu|GPU|Gl[A-Z])|"(?!SOURCE_ON_GPU)\w*_GPU\b|delegate: \{ gpu|GpuBuffer'
)
_SUBGRAPH: Final = re.compile(r"mediapipe_simple_subgraph\((.*?)\n\)", re.DOTALL)
_KEY: Final = re.compile(r'(graph|register_as) = "([^"]+)"')
#: Words of findings, in the order in which they are looked for, and the reason that they stand for.
_REASONS: Final = (
    ("MediaSequence|TensorFlow|LappedTensor|TfRecord", "TensorFlow and media sequences"),
    ("FaceGeometry", "geometry of faces"),
    ("MotionAnalysis|FlowPackager|BoxTracker|BoxTracking|TrackedDetection|TimedBox", "tracking"),
    ("FeatureDetector|BoxDetector", "matching of templates"),
    ("ScaleImage|ShotBoundary|SceneCropping|Autoflip", "autoflip"),
    ("Tvl1", "optical flow"),
    ("Sobel|Luminance", "shaders, which exist for GPUs only"),
    ("model_path or from", "a part of other graphs, which set its model"),
    ("SideModel", "names subgraphs that the repository does not have"),
)


def count_graphs(checkout: Path) -> Iterator[str]:
    """Yield the lines of the count, and of the graphs that are not taken with their reasons."""
    root = checkout / "mediapipe"
    found = _with_subgraphs(root)
    refused: list[tuple[str, str]] = []
    taken: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*.pbtxt")):
            text = re.sub(r"#.*", "", file.read_text())
            if not _NODE.search(text) or _GPU.search(text) or file.stem.endswith("_gpu"):
                continue
            total[folder] += 1
            try:
                validate_graph(parse_graph_text(file.read_text()), registry=found)
            except GraphError as error:
                refused.append((str(file.relative_to(checkout)), _reason(str(error))))
            else:
                taken[folder] += 1
    yield from head("graphs in", "CPU graphs", "valid")
    for folder in _FOLDERS:
        yield row(f"`mediapipe/{folder}`", total[folder], taken[folder])
    share = 100 * taken.total() / max(total.total(), 1)
    yield row("all", total.total(), f"{taken.total()} ({share:.0f} %)")
    yield ""
    yield from head("not taken", "needs")
    for name, reason in sorted(refused, key=lambda each: (each[1], each[0])):
        yield row(f"`{name}`", reason)


def _with_subgraphs(root: Path) -> Registry:
    """Return this repository's calculators and subgraphs, and the checkout's subgraphs for CPUs."""
    found = registry()
    for build in sorted(root.rglob("BUILD")):
        for rule in _SUBGRAPH.findall(build.read_text()):
            keys = dict(_KEY.findall(rule))
            file, name = build.parent / keys.get("graph", ""), keys.get("register_as", "")
            if not name or not file.is_file() or file.stem.endswith("_gpu"):
                continue
            if found.find_subgraph(name) is None:
                try:
                    found.register_subgraph(parse_graph_text(file.read_text()), name)
                except GraphError:
                    continue  # the graphs that name it are refused with its name
    return found


def _reason(finding: str) -> str:
    for words, reason in _REASONS:
        if re.search(words, finding):
            return reason
    return finding.splitlines()[0][:100].replace("|", "/")


# Commands -----------------------------------------------------------------------------------------


def agreement_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """MediaPipe's solutions beside MediaPipe itself: the same results."""
    parser.add_argument("--python", help="interpreter with mediapipe")
    add_write(parser)
    given = parser.parse_args(words)
    publish(agreement(given.python), given.write)


def speed_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """MediaPipe's solutions beside MediaPipe itself: how fast."""
    parser.add_argument("--python", required=True, help="interpreter with mediapipe")
    parser.add_argument("--rounds", type=int, default=2)
    add_write(parser)
    given = parser.parse_args(words)
    publish(speed(given.python, given.rounds), given.write)


def graphs_command(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Count of MediaPipe's own graphs that load here, and of the calculators that others lack."""
    parser.add_argument("checkout", type=Path)
    add_write(parser)
    given = parser.parse_args(words)
    publish(count_graphs(given.checkout), given.write)


if __name__ == "__main__":
    run_command(
        "bench.mediapipe_solutions",
        __doc__,
        {"agreement": agreement_command, "speed": speed_command, "graphs": graphs_command},
    )
