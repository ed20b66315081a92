"""DAG pipelines of a config: the graphs that they are, and those that are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from servers.config import GraphEntry, ServerConfig, read_config
from tests.servers.cli.process import graphrt


def source(node: str, item: str) -> dict[str, str]:
    return {"node_name": node, "data_item": item}


def node(name: str, reads: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return a node of the model ``m``, whose tensors are X and Y."""
    return {
        "name": name,
        "model_name": "m",
        "type": "DL model",
        "inputs": [{"X": source(*reads)}],
        "outputs": [{"data_item": "Y", "alias": "y"}],
        **more,
    }


#: Slices of each request, taken apart again by ``cut`` and put together for ``join``.
PIPELINE: dict[str, Any] = {
    "name": "p",
    "inputs": ["x"],
    "demultiply_count": -1,
    "nodes": [
        node("join", ("map", "y"), gather_from_node="cut"),
        node("cut", ("request", "x"), demultiply_count=3),
        node("map", ("cut", "y"), version=2),
    ],
    "outputs": [{"x": source("join", "y")}, {"Image/Shape": source("request", "x")}],
}


def write(folder: Path, *pipelines: Any, **more: Any) -> Path:
    path = folder / "config.json"
    models = [{"config": {"name": "m", "base_path": "m"}}]
    content = {"model_config_list": models, "pipeline_config_list": pipelines, **more}
    path.write_text(json.dumps(content))
    return path


def read(folder: Path, *pipelines: Any, **more: Any) -> ServerConfig:
    return read_config(write(folder, *pipelines, **more))


def calculators(entry: GraphEntry) -> list[str]:
    assert entry.graph_text is not None
    lines = entry.graph_text.splitlines()
    return [line.split('"')[1] for line in lines if "calculator:" in line]


def test_a_pipeline_is_a_graph_of_sessions_inference_and_slices(tmp_path: Path) -> None:
    config = read(tmp_path, PIPELINE)
    assert config.findings == ()
    assert config.pipelines == ("p",)
    (entry,) = config.graphs
    assert calculators(entry) == [
        "DemultiplyTensorsCalculator",
        "OpenVINOModelServerSessionCalculator",
        "OpenVINOInferenceCalculator",
        "DemultiplyTensorsCalculator",
        "OpenVINOModelServerSessionCalculator",  # version 2
        "OpenVINOInferenceCalculator",
        "GatherTensorsCalculator",
        "OpenVINOInferenceCalculator",
        "GatherTensorsCalculator",
    ]
    # Streams have small letters, and one name each.
    assert entry.tensor_names == {"x_2": "x", "image_shape": "Image/Shape"}


def test_convert_prints_the_graph_and_names_what_differs(tmp_path: Path) -> None:
    path = write(tmp_path, PIPELINE, {**PIPELINE, "name": "q"})
    done = graphrt("convert", "--pipeline", str(path), "q")
    assert done.returncode == 0
    assert done.stdout.startswith('# The pipeline "q", by graphrt convert.\ninput_stream: "')
    assert 'tensor "Image/Shape" is the stream "image_shape" of the graph' in done.stderr
    done = graphrt("convert", "--pipeline", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert 'It has "p", "q"' in done.stderr
    done = graphrt("convert", "--pipeline", str(path), "r")
    assert (done.returncode, done.stdout) == (1, "")
    assert 'has no pipeline "r"; it has "p", "q"' in done.stderr


Change = Callable[[Any], object]


def first(**more: Any) -> Change:
    """Return a change of the node ``join``."""
    return lambda pipeline: pipeline["nodes"][0].update(more)


def reading(*reads: str) -> Change:
    """Return a change of what ``join`` reads."""
    return first(inputs=[{"X": source(*reads)}])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (first(model_name="n"), 'nodes[0].model_name: {}: the model "n" is not in model_config_l'),
        (lambda p: p["nodes"][0].pop("model_name"), 'nodes[0]: {}: the key "model_name" is miss'),
        (first(name="cut"), 'nodes[1].name: {}: two nodes have the name "cut"'),
        (first(name="request"), 'nodes[0].name: {}: "request" is reserved'),
        (
            reading("cot", "y"),
            'nodes[0].inputs[0].X: {}: there is no node "cot". Did you mean "cut',
        ),
        (reading("map", "z"), 'nodes[0].inputs[0].X: {}: the node "map" has no output "z"'),
        (reading("request", "z"), 'nodes[0].inputs[0].X: {}: the pipeline has no input "z"'),
        (reading("join", "y"), 'nodes: {}: the nodes "join" wait for each other: a cycle'),
        (first(inputs=[]), 'nodes[0].inputs: {}: the node "join" has no inputs'),
        (
            first(inputs=[{"X": source("map", "y")}, {"X": source("map", "y")}]),
            'nodes[0].inputs[1].X: {}: "X" has two sources',
        ),
        (
            first(outputs=[{"data_item": "Y", "alias": "y"}, {"data_item": "Z", "alias": "y"}]),
            'nodes[0].outputs[1].alias: {}: two outputs have the alias "y"',
        ),
        (
            first(gather_from_node="map"),
            'nodes[0].gather_from_node: {}: no node "map" has a demultiply_count',
        ),
        (
            first(gather_from_node="request"),
            'nodes[0].gather_from_node: {}: the inputs are no slices of "request" that can be '
            'gathered here: slices of "cut" come first',
        ),
        (
            lambda p: p["nodes"][0].pop("gather_from_node"),
            'outputs: {}: they are taken apart differently: "y" of "join" is in slices of '
            '"request", "cut"; "x" of "request" is in slices of "request"',
        ),
        (lambda p: p["outputs"].pop(0), 'nodes[0]: {}: nothing reads the node "join"'),
        (lambda p: p.update(outputs=[]), "outputs: {}: a pipeline needs an output"),
        (
            first(type="custom", library_name="lib", params={"a": "b"}),
            'nodes[0].type: {}: the node "join" is a custom node',
        ),
    ],
)
def test_a_pipeline_without_a_graph_is_kept_with_its_reason(
    tmp_path: Path, change: Change, message: str
) -> None:
    wrong = deepcopy(PIPELINE)
    change(wrong)
    config = read(tmp_path, {**PIPELINE, "name": "good"}, wrong)
    (finding,) = config.findings
    expected = "pipeline_config_list[1]." + message.format("the pipeline is not served")
    assert finding.message.startswith(expected)
    assert (finding.severity, finding.is_unserved) == ("warning", True)
    good, bad = config.graphs
    assert (good.refusal, bad.name) == ("", "p")
    assert bad.refusal.startswith(message.partition("{}: ")[2])


def test_the_way_for_a_custom_node_is_a_python_node(tmp_path: Path) -> None:
    pipeline = {**PIPELINE, "nodes": [node("c", ("request", "x"), type="custom")]}
    pipeline["outputs"] = [{"y": source("c", "y")}]
    libraries = [{"name": "lib", "base_path": "/lib.so"}]
    path = write(tmp_path, pipeline, custom_node_library_config_list=libraries)
    done = graphrt("validate", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "write it as a Python node" in done.stderr
    done = graphrt("convert", "--pipeline", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "write it as a Python node" in done.stderr


def test_the_first_of_one_name_is_served(tmp_path: Path) -> None:
    config = read(tmp_path, PIPELINE, PIPELINE, {**PIPELINE, "name": "m"})
    assert [entry.name for entry in config.graphs] == ["p"]
    assert [finding.message.partition(":")[0] for finding in config.findings] == [
        "pipeline_config_list[1].name",
        "pipeline_config_list[2].name",
    ]


@pytest.mark.parametrize(
    "more",
    [
        {
            "model_config_list": [
                {"config": {"name": "m", "custom_loader_options": {"loader_name": "l"}}}
            ]
        },
        {"mediapipe_config_list": [{"name": "g", "base_path": "."}, {"name": "g"}]},
    ],
)
def test_validate_fails_if_anything_is_not_served(tmp_path: Path, more: Any) -> None:
    (tmp_path / "graph.pbtxt").write_text("")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(more))
    done = graphrt("validate", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "served" in done.stderr
