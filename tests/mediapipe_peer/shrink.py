"""Smaller cases with the same difference, for people to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.mediapipe_peer.case import PeerCase, Step, stream_of


def shrink(case: PeerCase, differs: Callable[[PeerCase], bool], attempts: int = 400) -> PeerCase:
    """Remove the parts that the difference does not need."""
    found = True
    while found and attempts > 0:
        found = False
        for smaller in _smaller(case):
            attempts -= 1
            if attempts <= 0:
                break
            if differs(smaller):
                case, found = smaller, True
                break
    return case


def _smaller(case: PeerCase) -> Iterator[PeerCase]:
    for place in range(len(case.edits)):
        yield replace(case, edits=case.edits[:place] + case.edits[place + 1 :])
    if case.reruns:
        yield replace(case, reruns=0)
    for place in reversed(range(len(case.nodes))):
        smaller = case.without_node(place)
        yield smaller
        # The application provides its outputs instead, and sends nothing there.
        lost = tuple(stream_of(port) for port in case.nodes[place].outputs)
        closes = tuple(("close", name) for name in lost)
        yield replace(
            smaller,
            inputs=(*smaller.inputs, *lost),
            steps=(*smaller.steps[:-2], *closes, *smaller.steps[-2:]),
        )
    for port in case.inputs:
        yield case.without_input(port)
    steps = case.steps
    half = len(steps) // 2
    if half > 4:
        yield replace(case, steps=(steps[0], *steps[half:]))
        yield replace(case, steps=(*steps[:half], *_closes(case), *steps[-2:]))
    for place in reversed(range(1, len(steps) - 2)):
        if steps[place][0] != "close":
            yield replace(case, steps=steps[:place] + steps[place + 1 :])
    for place, line in enumerate(case.header):
        if line:
            yield replace(case, header=case.header[:place] + case.header[place + 1 :])
    for place, node in enumerate(case.nodes):
        for number in range(len(node.more)):
            more = node.more[:number] + node.more[number + 1 :]
            yield case.with_node(place, replace(node, more=more))
        for number in range(len(node.side_inputs)):
            sides = node.side_inputs[:number] + node.side_inputs[number + 1 :]
            yield case.with_node(place, replace(node, side_inputs=sides))
        for number in range(len(node.outputs)):
            outputs = node.outputs[:number] + node.outputs[number + 1 :]
            yield case.with_node(place, replace(node, outputs=outputs))
        for number in range(len(node.inputs)):
            inputs = node.inputs[:number] + node.inputs[number + 1 :]
            yield case.with_node(place, replace(node, inputs=inputs))
    if len(case.observed) > 1:
        for stream in case.observed:
            yield replace(case, observed=tuple(s for s in case.observed if s != stream))


def _closes(case: PeerCase) -> list[Step]:
    return [("close", stream_of(port)) for port in case.inputs]
