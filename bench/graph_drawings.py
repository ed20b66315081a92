"""Drawings of graphs beside ELK's: crossings, length of lines, and time.

    npm install --prefix build/elk elkjs@0.12.1
    python -m bench.graph_drawings --elk build/elk --write bench/graph_drawings.md

ELK gets the same boxes, with ports at the same places, its orthogonal routing, its network simplex,
and its folding (``MULTI_EDGE``, aspect ratio 1.7) for graphs that are folded here. Nothing of ELK
is part of graphrt.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import calculators
from bench.machine import ROOT, describe_machine, head, publish, report_parser, row
from graph_runtime import REGISTRY, GraphError, Registry, ValidatedGraph, ValidationError
from servers.drawing.description import describe_graph
from servers.drawing.drawing import DrawnNode, GraphDrawing, Point
from servers.drawing.layout import draw
from servers.drawing.level import crossings, length
from servers.serving.graph_source import GraphSource
from servers.serving.python_path import registry_with

_OPTIONS = {
    "elk.algorithm": "layered",
    "elk.direction": "RIGHT",
    "elk.edgeRouting": "ORTHOGONAL",
    "elk.layered.spacing.nodeNodeBetweenLayers": "52",
    "elk.spacing.nodeNode": "40",
    "elk.spacing.edgeNode": "18",
    "elk.spacing.edgeEdge": "12",
    "elk.layered.spacing.edgeNodeBetweenLayers": "22",
    "elk.layered.spacing.edgeEdgeBetweenLayers": "12",
    "elk.layered.nodePlacement.strategy": "NETWORK_SIMPLEX",
    "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
    "elk.layered.feedbackEdges": "true",
    "elk.padding": "[top=24,left=24,bottom=24,right=24]",
}
#: The least time of so many counts.
_TURNS = 5
_FOLDING = {
    "elk.layered.wrapping.strategy": "MULTI_EDGE",
    "elk.aspectRatio": "1.7",
    "elk.layered.wrapping.additionalEdgeSpacing": "24",
}

#: JSON lists of ELK's graphs in, and laid out, by standard input and output.
_ELK = """
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"

const ELK = createRequire(`${process.cwd()}/`)("elkjs")
const elk = new ELK()
const laid = []
for (const graph of JSON.parse(readFileSync(0, "utf8"))) laid.push(await elk.layout(graph))
process.stdout.write(JSON.stringify(laid))
"""

#: The lines of a stream, each a list of corners.
Streams = dict[object, list[list[Point]]]


def main() -> None:
    """Print the table."""
    parser = report_parser(__doc__)
    parser.add_argument("--elk", type=Path, required=True, help="a folder with elkjs installed")
    parser.add_argument(
        "graphs", nargs="*", type=Path, help="those of bench/graphs and the examples"
    )
    args = parser.parse_args()
    calculators.register_all(REGISTRY)
    files = args.graphs or [
        *sorted((ROOT / "bench/graphs").glob("*.pbtxt")),
        *sorted((ROOT / "examples/graphs").glob("*/*.pbtxt")),
    ]
    drawings = []
    for file in files:
        modules = tuple(sorted(file.parent.glob("*.py")))
        try:
            source = GraphSource(str(file), registry_with(modules, Registry(REGISTRY)).registry)
        except GraphError:
            continue  # its options belong to a package of its own
        graph = describe_graph(source.config, source.registry, _plan(source))
        seconds = []
        for _ in range(_TURNS):
            begun = time.process_time()
            draw(graph, file.stem)
            seconds.append(time.process_time() - begun)
        drawings.append((file, draw(graph, file.stem), min(seconds)))
    laid = _elk(args.elk, [to_elk(drawing) for _, drawing, _ in drawings])
    publish(report(drawings, laid), args.write)


def _plan(source: GraphSource) -> ValidatedGraph | None:
    try:
        return source.validate()
    except ValidationError:
        return None


def to_elk(drawing: GraphDrawing) -> dict[str, Any]:
    """Return a drawing's boxes, ports and lines as a graph for ELK."""
    is_folded = any(
        not wire.is_back_edge and wire.points[-1][0] < wire.points[0][0] for wire in drawing.wires
    )
    return {
        "id": "root",
        "layoutOptions": {**_OPTIONS, **(_FOLDING if is_folded else {})},
        "children": [_child(node) for node in drawing.nodes],
        "edges": [
            {
                "id": str(place),
                "sources": [f"{wire.source}/o{wire.source_port}"],
                "targets": [f"{wire.target}/i{wire.target_port}"],
                **(
                    {"layoutOptions": {"elk.layered.priority.direction": "-10"}}
                    if wire.is_back_edge and not wire.is_loop
                    else {}
                ),
            }
            for place, wire in enumerate(drawing.wires)
        ],
    }


def _child(node: DrawnNode) -> dict[str, Any]:
    return {
        "id": node.id,
        "width": node.width,
        "height": node.height,
        "layoutOptions": {"elk.portConstraints": "FIXED_POS"},
        "ports": [
            {
                "id": f"{node.id}/{letter}{place}",
                "x": port.x - node.x,
                "y": port.y - node.y,
                "width": 0,
                "height": 0,
                "layoutOptions": {"elk.port.side": side},
            }
            for letter, side, ports in (("i", "WEST", node.inputs), ("o", "EAST", node.outputs))
            for place, port in enumerate(ports)
        ],
    }


def _elk(folder: Path, graphs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", _ELK],
        input=json.dumps(graphs),
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return list(json.loads(done.stdout))


def own_streams(drawing: GraphDrawing) -> Streams:
    """Return the lines of a drawing by the output they begin at."""
    found: Streams = {}
    for wire in drawing.wires:
        found.setdefault(f"{wire.source}.{wire.source_port}", []).append(list(wire.points))
    return found


def _elk_streams(drawing: GraphDrawing, laid: dict[str, Any]) -> Streams:
    found: Streams = {}
    for edge in laid["edges"]:
        wire = drawing.wires[int(edge["id"])]
        (section,) = edge["sections"]
        points = [section["startPoint"], *section.get("bendPoints", ()), section["endPoint"]]
        found.setdefault(f"{wire.source}.{wire.source_port}", []).append(
            [(point["x"], point["y"]) for point in points]
        )
    return found


def report(
    drawings: list[tuple[Path, GraphDrawing, float]], laid: list[dict[str, Any]]
) -> list[str]:
    """Return the table."""
    columns = ("graph", "nodes", "crossings, ELK's", "length, ELK's", "ratio", "size, ELK's", "ms")
    lines = [
        "# Drawings beside ELK's",
        "",
        f"`python -m bench.graph_drawings --elk FOLDER` on {describe_machine()}, elkjs 0.12.1.",
        "Crossings are points where lines of different streams cross; lengths are sums over all "
        "lines, in pixels; the time is graphrt's layout, in milliseconds of CPU, the least of "
        f"{_TURNS}. `bench/graphs` has graphs for this page: two of 60 and 200 nodes at "
        "random, a guard around two models, and a pipeline for images of 20 nodes; all "
        "others are examples. In `judge`, ELK turns a line that is not a back edge, which brings "
        "the third model forward.",
        "",
        *head(*columns),
    ]
    sums = [0, 0, 0.0, 0.0]
    for (file, drawing, seconds), graph in zip(drawings, laid, strict=True):
        mine, other = own_streams(drawing), _elk_streams(drawing, graph)
        counts = (crossings(mine), crossings(other), length(mine), length(other))
        sums = [total + each for total, each in zip(sums, counts, strict=True)]
        name = file.parent.name if file.stem == "graph" else f"{file.parent.name}/{file.stem}"
        lines.append(
            row(
                name,
                len(drawing.nodes),
                f"{counts[0]}, {counts[1]}",
                f"{counts[2]:.0f}, {counts[3]:.0f}",
                f"{counts[2] / max(counts[3], 1):.2f}",
                f"{drawing.width:.0f} x {drawing.height:.0f}, "
                f"{graph['width']:.0f} x {graph['height']:.0f}",
                f"{1000 * seconds:.1f}",
            )
        )
    shown = (f"{sums[0]}, {sums[1]}", f"{sums[2]:.0f}, {sums[3]:.0f}", f"{sums[2] / sums[3]:.2f}")
    return [*lines, row("all", "", *shown, "", "")]


if __name__ == "__main__":
    main()
