"""Pictures of runs: a lane per node, its calls in the order of the run, packets as lines.

A picture is made of the trace of a run that has taken place. Its columns are the order of calls,
not their times, so that the picture of a graph does not change from run to run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from graph_runtime import CalculatorGraph, Registry, Tracer
from servers.drawing.svg import COLORS, MONO, SANS
from servers.serving.graph_source import GraphSource
from servers.serving.python_path import registry_with

_LEFT: Final = 160.0
_COLUMN: Final = 76.0
_ROW: Final = 66.0
_TOP: Final = 34.0
_BOX: Final = (62.0, 26.0)
#: Class, property, color.
_RULES: Final = (
    (".page", "fill", "canvas"),
    (".lane", "stroke", "line"),
    (".name", "fill", "text"),
    (".small", "fill", "muted"),
    (".box", "fill", "surface"),
    (".box", "stroke", "kind-flow"),
    (".time", "fill", "text"),
    (".wire", "stroke", "wire"),
    (".tip", "fill", "wire"),
    (".dot", "fill", "kind-io"),
)
_STYLE: Final = f"""\
.run text {{ font-family: {SANS}; font-size: 13px; }}
.run .name {{ font-weight: 600; }}
.run .small, .run .time {{ font-family: {MONO}; font-size: 11px; }}
.run .time {{ text-anchor: middle; }}
.run .wire {{ fill: none; stroke-width: 1.5; }}
.run .box {{ stroke-width: 1.25; }}
"""


class Event(NamedTuple):
    """A call of a node, or a packet that comes in or goes out.

    Attributes:
        lane: the place of the lane, from the top.
        time: the timestamp.
        received, sent: packets, by stream and timestamp.
    """

    lane: int
    time: int
    received: tuple[tuple[str, int], ...] = ()
    sent: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Run:
    """A run: lanes from the top (name, text below it, a node or not), and events in their order."""

    title: str
    lanes: tuple[tuple[str, str, bool], ...]
    events: tuple[Event, ...]


def trace(graph: Path, registry: Registry, packets: int) -> Run:
    """Run a graph with the first packets of the feed beside it (``NAME.feed.jsonl``)."""
    modules = registry_with(tuple(graph.parent.glob(f"{graph.stem}.py")), registry)
    source = GraphSource(str(graph), modules.registry)
    plan = source.validate()
    inputs = [each.name for each in plan.graph_inputs]
    outputs = [entry.rpartition(":")[2] for entry in source.config.output_stream]
    nodes = [(node.name, node.calculator_type) for node in plan.nodes]
    lanes = [
        *((name, "comes in", False) for name in inputs),
        *((_short(name), "" if name == kind else _short(kind), True) for name, kind in nodes),
        *((name, "goes out", False) for name in outputs),
    ]
    events: list[Event] = []
    tracer = Tracer()
    with CalculatorGraph(plan) as running:
        running.trace(tracer)
        running.start_run()
        seen = 0
        for stream, time, value in _feed(graph.with_suffix(".feed.jsonl"))[:packets]:
            events.append(Event(inputs.index(stream), time, (), ((stream, time),)))
            running.add_packet_to_input_stream(stream, value, time)
            running.wait_until_idle()
            seen = _take(tracer, seen, events, len(inputs), len(nodes), outputs)
        running.close_all_input_streams()
        running.wait_until_done()
        _take(tracer, seen, events, len(inputs), len(nodes), outputs)
    return Run(graph.name, tuple(lanes), tuple(events))


def _take(
    tracer: Tracer, seen: int, events: list[Event], inputs: int, nodes: int, outputs: list[str]
) -> int:
    """Append the calls since the last time, and the packets that went out; their number."""
    calls = tracer.calls
    for call in calls[seen:]:
        if call.phase != "process":
            continue
        received, sent = tuple(call.received), tuple(call.sent)
        events.append(Event(inputs + call.node, call.time, received, sent))
        for stream, time in sent:
            if stream in outputs:
                lane = inputs + nodes + outputs.index(stream)
                events.append(Event(lane, time, ((stream, time),)))
    return len(calls)


def _feed(file: Path) -> list[tuple[str, int, object]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.startswith("{")]
    return [(each["stream"], each["ts"], each["value"]) for each in entries if "stream" in each]


def to_svg(run: Run) -> str:
    """Return the picture as one ``<svg>`` element that follows the reader's theme."""
    width = _LEFT + _COLUMN * len(run.events) + 20
    height = _TOP + _ROW * len(run.lanes) - 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="run" role="img" width="{width:g}" '
        f'height="{height:g}" viewBox="0 0 {width:g} {height:g}">',
        f"<title>A run of {escape(run.title)}</title>",
        f"<desc>{escape(_told(run))}</desc>",
        f"<style>\n{_STYLE}{_colors()}</style>",
        f'<rect class="page" width="{width:g}" height="{height:g}" rx="8"/>',
    ]
    for place, (name, below, _) in enumerate(run.lanes):
        y = _y(place)
        parts += [
            f'<path class="lane" d="M{_LEFT - 20:g} {y:g}H{width - 16:g}"/>',
            f'<text class="name" x="18" y="{y:g}">{escape(name)}</text>',
            f'<text class="small" x="18" y="{y + 15:g}">{escape(below)}</text>',
        ]
    parts += [*_wires(run), *(_event(run, place) for place in range(len(run.events))), "</svg>"]
    return "\n".join(parts) + "\n"


def _wires(run: Run) -> list[str]:
    """Return a line from each sender to each receiver of its packet."""
    parts = []
    sent_at: dict[tuple[str, int], int] = {}
    for place, event in enumerate(run.events):
        senders = [sent_at[packet] for packet in event.received if packet in sent_at]
        parts += [_wire(run, sender, place) for sender in senders]
        for packet in event.sent:
            sent_at[packet] = place
    return parts


def _wire(run: Run, source: int, target: int) -> str:
    x1, y1 = _x(source), _y(run.events[source].lane)
    x2, y2 = _x(target), _y(run.events[target].lane)
    down = 1 if y2 > y1 else -1
    begin = y1 + down * (_BOX[1] / 2 if run.lanes[run.events[source].lane][2] else 5)
    end = y2 - down * (_BOX[1] / 2 + 1 if run.lanes[run.events[target].lane][2] else 6)
    bend = end - down * min(44.0, abs(end - begin) * 0.8)
    return (
        f'<path class="wire" d="M{x1:g} {begin:g}C{x1:g} {begin + down * 40:g} {x2:g} {bend:g} '
        f'{x2:g} {end - down * 5:g}"/>'
        f'<path class="tip" d="M{x2:g} {end:g}l-4 {-down * 7:g}h8z"/>'
    )


def _event(run: Run, place: int) -> str:
    event = run.events[place]
    x, y = _x(place), _y(event.lane)
    if run.lanes[event.lane][2]:
        width, height = _BOX
        return (
            f'<rect class="box" x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" '
            f'height="{height:g}" rx="5"/>'
            f'<text class="time" x="{x:g}" y="{y + 4:g}">at {event.time}</text>'
        )
    return (
        f'<circle class="dot" cx="{x:g}" cy="{y:g}" r="4.5"/>'
        f'<text class="time" x="{x + 17:g}" y="{y - 7:g}">{event.time}</text>'
    )


def _told(run: Run) -> str:
    """Return the events in words, for those who do not see the picture."""
    told = []
    for event in run.events:
        name, _, is_node = run.lanes[event.lane]
        if is_node:
            streams = ", ".join(stream for stream, _ in event.received) or "no packet"
            told.append(f"{name} is called at {event.time} with {streams}")
        elif event.sent:
            told.append(f"a packet of {name} comes in at {event.time}")
        else:
            told.append(f"a packet of {name} goes out at {event.time}")
    return "; ".join(told) + "."


def _colors() -> str:
    light, dark = (
        "".join(
            f".run {selector} {{ {name}: {COLORS[color][theme]}; }}\n"
            for selector, name, color in _RULES
        )
        for theme in (0, 1)
    )
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


def _short(calculator: str) -> str:
    return calculator.removesuffix("Calculator")


def _x(place: int) -> float:
    return _LEFT + _COLUMN * (place + 0.5)


def _y(lane: int) -> float:
    return _TOP + _ROW * lane + 4
