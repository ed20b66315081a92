"""Count of MediaPipe's own graphs that load here, and of the calculators that the others lack.

    python -m bench.mediapipe_graphs CHECKOUT [--write FILE]

CHECKOUT is a working tree of MediaPipe's repository. Counted are the graphs with nodes of
``mediapipe/modules``, ``graphs`` and ``examples/desktop`` that need no GPU: none of their nodes,
streams and delegates is on one. Subgraphs are this repository's; those it does not have are
registered from the checkout under the names in its ``BUILD`` files.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import calculators
from bench.machine import add_write, publish
from graph_runtime import REGISTRY, GraphError, Registry, parse_graph_text, validate_graph

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


def table(checkout: Path) -> Iterator[str]:
    """Yield the lines of the count, and of the graphs that are not taken with their reasons."""
    root = checkout / "mediapipe"
    registry = _registry(root)
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
                validate_graph(parse_graph_text(file.read_text()), registry=registry)
            except GraphError as error:
                refused.append((str(file.relative_to(checkout)), _reason(str(error))))
            else:
                taken[folder] += 1
    yield "| graphs in | CPU graphs | valid |"
    yield "|---|---|---|"
    for folder in _FOLDERS:
        yield f"| `mediapipe/{folder}` | {total[folder]} | {taken[folder]} |"
    share = 100 * taken.total() / max(total.total(), 1)
    yield f"| all | {total.total()} | {taken.total()} ({share:.0f} %) |"
    yield ""
    yield "| not taken | needs |"
    yield "|---|---|"
    for name, reason in sorted(refused, key=lambda each: (each[1], each[0])):
        yield f"| `{name}` | {reason} |"


def _registry(root: Path) -> Registry:
    """The repository's calculators and subgraphs, and the checkout's subgraphs for CPUs."""
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    for build in sorted(root.rglob("BUILD")):
        for rule in _SUBGRAPH.findall(build.read_text()):
            keys = dict(_KEY.findall(rule))
            file, name = build.parent / keys.get("graph", ""), keys.get("register_as", "")
            if not name or not file.is_file() or file.stem.endswith("_gpu"):
                continue
            if registry.find_subgraph(name) is None:
                try:
                    registry.register_subgraph(parse_graph_text(file.read_text()), name)
                except GraphError:
                    continue  # the graphs that name it are refused with its name
    return registry


def _reason(finding: str) -> str:
    for words, reason in _REASONS:
        if re.search(words, finding):
            return reason
    return finding.splitlines()[0][:100].replace("|", "/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("checkout", type=Path)
    add_write(parser)
    arguments = parser.parse_args()
    lines = list(table(arguments.checkout))
    publish("\n".join(lines), arguments.write)


if __name__ == "__main__":
    main()
