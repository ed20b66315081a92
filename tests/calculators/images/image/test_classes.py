"""From a classifier's tensor to classes with names, and names for detections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graph_runtime import Code, GraphError
from tests.calculators.images.image.runs import detection, floats, node, run

NEW, OLD = "TensorsToClassificationCalculator", "OpenVINOTensorsToClassificationCalculator"
TO_TEXT = "DetectionLabelIdToTextCalculator"
BOTH = pytest.mark.parametrize("name", [NEW, OLD])
SCORES = floats(0.1, 0.7, 0.2, shape=(1, 3))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_bytes(b"cat\r\ndog\r\nbird\r\n")
    (tmp_path / "two.txt").write_text("yes\nno")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe")
    return tmp_path


def classify(
    name: str, options: str, tensors: list[Any], directory: Path | None = None
) -> list[tuple[int, Any, str]]:
    text = node(name, options, 'input_stream: "TENSORS:in"', 'output_stream: "CLASSIFICATIONS:out"')
    (found,) = run(text, {"in": tensors}, directory=directory)["out"]
    return [
        (entry.index, pytest.approx(entry.score), entry.label) for entry in found.classification
    ]


@BOTH
def test_labels_come_from_a_file_beside_the_graph(name: str, directory: Path) -> None:
    found = classify(name, 'label_map_path: "labels.txt"', [SCORES], directory)
    assert found == [(0, 0.1, "cat"), (1, 0.7, "dog"), (2, 0.2, "bird")]


@BOTH
def test_a_label_file_may_be_in_the_working_directory(
    name: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    found = classify(name, 'label_map_path: "labels.txt" top_k: 1', [SCORES], directory / "other")
    assert found == [(1, 0.7, "dog")]


@BOTH
def test_the_best_classes_come_first(name: str) -> None:
    assert classify(name, "top_k: 2", [SCORES]) == [(1, 0.7, ""), (2, 0.2, "")]
    assert len(classify(name, "top_k: 9", [SCORES])) == 3
    assert classify(name, "min_score_threshold: 0.2", [SCORES]) == [(1, 0.7, ""), (2, 0.2, "")]


@BOTH
def test_one_score_becomes_two_classes(name: str, directory: Path) -> None:
    options = 'binary_classification: true label_map_path: "two.txt"'
    found = classify(name, options, [floats(0.75, shape=(1, 1))], directory)
    assert found == [(0, 0.75, "yes"), (1, 0.25, "no")]
    with pytest.raises(GraphError, match="binary_classification needs a tensor of 1 score, not 3"):
        classify(name, "binary_classification: true", [SCORES])


@BOTH
@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("none.txt", 'there is no file "none.txt" beside the graph', Code.NOT_FOUND),
        ("empty.txt", 'the file "empty.txt" is empty', Code.INVALID_ARGUMENT),
        ("binary.txt", 'the file "binary.txt" is not UTF-8 text', Code.INVALID_ARGUMENT),
        ("two.txt", "has 3 classes, and there are 2 labels", Code.INVALID_ARGUMENT),
    ],
)
def test_label_files_that_do_not_match_are_refused(
    name: str, path: str, text: str, code: Code, directory: Path
) -> None:
    with pytest.raises(GraphError, match=text) as caught:
        classify(name, f'label_map_path: "{path}"', [SCORES], directory)
    assert caught.value.code is code
    assert str(directory) not in str(caught.value)


@BOTH
def test_tensors_that_do_not_match_are_refused(name: str) -> None:
    with pytest.raises(GraphError, match="a classifier has one tensor, the scores; there are 2"):
        classify(name, "", [SCORES, SCORES])
    with pytest.raises(GraphError, match="elements of type float64; float32 is expected"):
        classify(name, "", [SCORES.astype(np.float64)])


def test_openvinos_calculator_accepts_two_dimensions() -> None:
    with pytest.raises(GraphError, match=r"the shape \(3,\); two dimensions are expected"):
        classify(OLD, "", [SCORES.ravel()])
    assert len(classify(NEW, "", [SCORES.ravel()])) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("allow_classes: 1 ignore_classes: 0", "exclude each other"),
        ("binary_classification: true allow_classes: 1", "binary_classification excludes"),
        ("label_map { entries { id: 1 } entries { id: 1 } }", "the id 1 is there twice"),
    ],
)
def test_impossible_options_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        classify(NEW, options, [SCORES])


def test_labels_are_found_by_id() -> None:
    entries = " ".join(
        f"entries {{ id: {number} label: '{label}' }}"
        for number, label in ((2, "c"), (0, "a"), (1, "b"))
    )
    found = classify(NEW, f"label_map {{ {entries} }}", [SCORES])
    assert [label for _, _, label in found] == ["a", "b", "c"]


def label(options: str, label_id: int, directory: Path | None = None) -> Any:
    text = node(TO_TEXT, options, 'input_stream: "in"', 'output_stream: "out"')
    feeds = {"in": [detection((0, 0, 1, 1), label_id=label_id)]}
    return run(text, feeds, directory=directory)["out"][0][0]


def test_detections_get_labels(directory: Path) -> None:
    found = label('label_map_path: "labels.txt"', 1, directory)
    assert (list(found.label), list(found.label_id)) == (["dog"], [])
    found = label('label: "a" label: "b" keep_label_id: true', 1)
    assert (list(found.label), list(found.label_id)) == (["b"], [1])
    found = label("label_items { key: 7 value { name: 'x' display_name: 'X' } }", 7)
    assert (list(found.label), list(found.display_name)) == (["x"], ["X"])


def test_ids_without_a_label_are_kept() -> None:
    found = label('label: "a"', 5)
    assert (list(found.label), list(found.label_id)) == ([], [5])


def test_a_second_source_of_labels_is_refused() -> None:
    with pytest.raises(GraphError, match="only one of label_map_path, label and label_items"):
        label("label: 'a' label_map_path: 'labels.txt'", 0)


def test_classes_become_arrays() -> None:
    text = """
    node { calculator: "TensorsToClassificationCalculator" input_stream: "TENSORS:in"
      output_stream: "CLASSIFICATIONS:classes"
      options { [mediapipe.TensorsToClassificationCalculatorOptions.ext] { top_k: 2
        label_items { key: 0 value { name: "a" } } label_items { key: 1 value { name: "ö" } }
        label_items { key: 2 value { name: "c" } } } } }
    node { calculator: "ClassificationsToTensorsCalculator" input_stream: "CLASSIFICATIONS:classes"
      output_stream: "SCORES:scores" output_stream: "LABEL_IDS:ids" output_stream: "LABELS:labels" }
    """
    found = run(text, {"in": [SCORES]}, "scores ids labels")
    (scores,), (ids,), (labels,) = found.values()
    assert (scores.dtype, scores.tolist()) == (np.float32, pytest.approx([0.7, 0.2]))
    assert (ids.dtype, ids.tolist()) == (np.int32, [1, 2])
    assert labels.tolist() == ["ö".encode(), b"c"]
