"""`RequestLabelCalculator`: requests to language models are routed by a classifier."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from calculators.language import GenerationRequest, Refusal
from calculators.language.testing import request_for
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    ResourceSettings,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.text.text_classification.tiny_classifier import LABELS, logits, make_model
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

GRAPH = """\
input_stream: "REQUEST:request"
output_stream: "REQUEST:0:first"
output_stream: "REQUEST:1:second"
node {
  name: "topic"
  calculator: "RequestLabelCalculator"
  input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
  input_stream: "REQUEST:request"
  output_stream: "LABEL:label"
  node_options {
    [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] { models_path: "topics" }
  }
}
node {
  calculator: "RouterCalculator"
  input_stream: "REQUEST:request"
  input_stream: "LABEL:label"
  output_stream: "REQUEST:0:first"
  output_stream: "REQUEST:1:second"
  node_options {
    [type.googleapis.com/graphrt.RouterOptions] {
      route { name: "first" label: "%s" }
      route { name: "second" }
    }
  }
}
"""


def best(text: str) -> str:
    return LABELS[int(logits(text)[0].argmax())]


async def routes_of(
    directory: Path, requests: list[GenerationRequest], label: str, options: str
) -> list[str]:
    text = GRAPH.replace('"topics"', f'"topics" {options}') % label
    plan = validate_graph(parse_graph_text(text), registry=REGISTRY)
    resources = await make_resources(plan, ResourceSettings(directory), REGISTRY)
    found: dict[int, str] = {}

    def note(stream: str, packet: Any) -> None:
        found[int(packet.timestamp)] = stream

    try:
        async with CalculatorGraph(validated_graph=plan) as graph:
            for name in ("first", "second"):
                graph.observe_output_stream(name, note)
            await graph.start_run_async(resources.side_packets)
            for time, request in enumerate(requests):
                await graph.add_packet_to_input_stream_async("request", request, time)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
    finally:
        await resources.close()
    return [found[time] for time in range(len(requests))]


def routed(
    directory: Path, requests: list[GenerationRequest], label: str, options: str = ""
) -> list[str]:
    if not (directory / "topics").exists():
        make_model(directory / "topics")
    routes = routes_of(directory, requests, label, options)
    return asyncio.run(asyncio.wait_for(routes, PATIENCE))


def test_requests_go_where_their_class_is_wanted(tmp_path: Path) -> None:
    texts = ["you fool", "peace", "beware"]
    label = best(texts[0])
    wanted = ["first" if best(text) == label else "second" for text in texts]
    assert set(wanted) == {"first", "second"}
    assert routed(tmp_path, [request_for(text) for text in texts], label) == wanted


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ["second", "first"]),
        ("label_threshold: 0.01", ["first", "first"]),
        ("label_threshold: 0.99999", ["second", "second"]),
        # Scores that add up to 1: the best of them counts.
        ("function: SOFTMAX", ["first", "first"]),
        ("function: SOFTMAX label_threshold: 0.6", ["second", "first"]),
    ],
)
def test_the_shipped_guard_gives_no_label_to_what_is_no_insult(
    tmp_path: Path, options: str, expected: list[str]
) -> None:
    (tmp_path / "topics").symlink_to(ROOT / "examples" / "models" / "guard")
    requests = [request_for("Hello"), request_for("You stupid fool!")]
    assert routed(tmp_path, requests, "insult", options) == expected


@pytest.mark.parametrize("text", ["", " \n", "you fool"])
def test_a_request_without_text_or_with_a_refusal_has_no_label(tmp_path: Path, text: str) -> None:
    request = request_for(text)
    if text.strip():
        request = request.refused(Refusal("no"))
    assert routed(tmp_path, [request], best("you fool")) == ["second"]


def test_half_of_a_surrogate_pair_is_classified(tmp_path: Path) -> None:
    request = request_for("you fool \ud800")
    assert len(routed(tmp_path, [request], best("you fool"))) == 1
