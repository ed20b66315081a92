"""`graphrt run`: what goes in and what comes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt, lines, packets

RUN = ["run", "graph.pbtxt", "--calculators", "calcs.py"]


def number(ts: int | str, value: object) -> str:
    return json.dumps({"stream": "number", "ts": ts, "value": value}) + "\n"


def test_packets_go_in_and_come_out_as_json_lines(place: Path) -> None:
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=number(0, 1) + number(5, 4))
    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == [
        {"stream": "doubled", "ts": 0, "value": 2},
        {"stream": "doubled", "ts": 5, "value": 8},
    ]


def test_the_feed_may_be_a_file_with_comments_and_blank_lines(place: Path) -> None:
    (place / "feed.jsonl").write_text("# a comment\n\n" + number(0, 21) + "  \n")
    done = graphrt(*RUN, "--feed", "feed.jsonl", cwd=place)
    assert packets(done.stdout, "doubled") == [(0, 42)]


def test_without_a_feed_the_graph_runs_to_its_end(place: Path) -> None:
    done = graphrt(*RUN, cwd=place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_special_timestamps_have_names(place: Path) -> None:
    for name in ("PRESTREAM", "MIN", "MAX", "POSTSTREAM"):
        done = graphrt(*RUN, "--feed", "-", cwd=place, feed=number(name, 1))
        assert packets(done.stdout, "doubled") == [(name, 2)]


def test_any_stream_can_be_observed_in_the_order_of_delivery(place: Path) -> None:
    done = graphrt(
        *RUN, "--observe", "doubled", "number", "--feed", "-", cwd=place, feed=number(0, 1)
    )
    assert [line["stream"] for line in lines(done.stdout)] == ["number", "doubled"]
    done = graphrt(
        *RUN, "--observe", "number", "--observe=OUT:doubled", "--feed", "-",
        cwd=place, feed=number(0, 1),
    )  # fmt: skip
    assert [line["stream"] for line in lines(done.stdout)] == ["number", "doubled"]


def test_without_output_streams_what_nobody_consumes_is_observed(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "number" input_stream: "unused"
        node { calculator: "Double" input_stream: "number" output_stream: "two" }
        node { calculator: "Double" input_stream: "two" output_stream: "four" }
        node { calculator: "Double" input_stream: "two" output_stream: "also_four" }"""
    )
    feed = number(0, 1) + '{"stream": "unused", "ts": 0, "value": 0}\n'
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=feed)
    assert {line["stream"] for line in lines(done.stdout)} == {"four", "also_four"}


def test_an_output_stream_that_nobody_makes_is_a_warning(place: Path) -> None:
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph + 'output_stream: "dubled"\n')
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=number(0, 1))
    assert done.returncode == 0
    assert packets(done.stdout, "doubled") == [(0, 2)]
    assert 'output_stream "dubled" has no producer' in done.stderr
    assert 'Did you mean "doubled"?' in done.stderr


def test_settled_timestamps_are_shown_on_request(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "number" output_stream: "out"
        node { calculator: "PacketPresenceCalculator"
               input_stream: "PACKET:number" output_stream: "PRESENCE:out" }"""
    )
    feed = number(0, 1) + '{"set_bound": {"stream": "number", "ts": 10}}\n'
    feed += '{"wait_until_idle": true}\n'
    done = graphrt(
        *RUN, "--observe", "number", "--observe-bounds", "--feed", "-", cwd=place, feed=feed
    )
    assert packets(done.stdout, "number") == [(0, 1), (9, None)]


def test_side_packets_go_in_and_come_out(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """node { calculator: "Counter" input_side_packet: "LIMIT:limit" output_stream: "n" }
        node { calculator: "Total" input_stream: "n" output_side_packet: "TOTAL:total" }"""
    )
    done = graphrt(*RUN, "--side-packet", "limit=4", "--observe", "n", cwd=place)
    assert done.returncode == 0
    assert packets(done.stdout, "n") == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert lines(done.stdout)[-1] == {"side_packet": "total", "value": 6}


def test_a_missing_side_packet_is_named(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        'node { calculator: "Counter" input_side_packet: "LIMIT:limit" output_stream: "n" }'
    )
    done = graphrt(*RUN, cwd=place)
    assert done.returncode == 1
    assert 'Side packet "limit" is required but was not provided.' in done.stderr


def test_a_side_packet_that_nothing_takes_is_an_error(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_side_packet: "LIMIT:limit" input_side_packet: "unused"
        node { calculator: "Counter" input_side_packet: "LIMIT:limit" output_stream: "n" }"""
    )
    done = graphrt(*RUN, "--side-packet", "limt=4", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'no node of the graph takes "limt". Did you mean "limit"?' in done.stderr
    done = graphrt(*RUN, "--side-packet", "limit=4", "--side-packet", "unused=1", cwd=place)
    assert done.returncode == 0


@pytest.mark.parametrize("given", ["limit", "limit=", "limit=four", "=4", "limit=NaN"])
def test_a_side_packet_that_is_no_json_is_wrong_usage(place: Path, given: str) -> None:
    done = graphrt(*RUN, "--side-packet", given, cwd=place)
    assert done.returncode == 2
    assert f"`--side-packet {given}`" in done.stderr


def test_values_that_json_lacks_are_still_json(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "kind" output_stream: "value"
        node { calculator: "Values" input_stream: "kind" output_stream: "value" }"""
    )
    kinds = ["bytes", "nan", "infinity", "point", "odd"]
    feed = "".join(
        json.dumps({"stream": "kind", "ts": ts, "value": kind}) + "\n"
        for ts, kind in enumerate(kinds)
    )
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=feed)
    assert [value for _, value in packets(done.stdout, "value")] == [
        {"type": "bytes", "value": "YWI="},
        "NaN",
        ["Infinity", "-Infinity"],
        {"x": 1, "y": 0.5},
        {"type": "calcs.Odd", "repr": "<Odd>"},
    ]


def test_what_calculators_print_does_not_get_between_the_data(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "text" output_stream: "loud"
        node { calculator: "Shout" input_stream: "text" output_stream: "loud" }"""
    )
    feed = '{"stream": "text", "ts": 0, "value": "gr\u00fc\u00df \\ud800"}\n'
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=feed)
    assert packets(done.stdout, "loud") == [(0, "GR\u00dcSS \ud800")]
    assert done.stderr == "calculators may print\n"


def test_a_graph_input_can_be_closed_by_the_feed(place: Path) -> None:
    feed = number(0, 2) + '{"close": "number"}\n' + number(1, 1)
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=feed)
    assert done.returncode == 1
    assert '<stdin>:3: stream "number" at 1: ' in done.stderr


def test_sources_can_be_closed_by_the_feed(place: Path) -> None:
    feed = number(0, 1) + '{"close_all_packet_sources": true}\n{"wait_until_idle": true}\n'
    feed += number(1, 1)  # the node has closed, so nobody takes it
    done = graphrt(*RUN, "--feed", "-", cwd=place, feed=feed)
    assert packets(done.stdout, "doubled") == [(0, 2)]


def test_a_trace_for_perfetto_is_written(place: Path) -> None:
    done = graphrt(
        *RUN, "--trace", "trace.json", "--feed", "-", cwd=place, feed=number(0, 1) + number(1, 1)
    )
    assert done.returncode == 0
    events = json.loads((place / "trace.json").read_text())["traceEvents"]
    calls = [event["name"] for event in events if event["ph"] == "X"]
    assert calls.count("Double.process") == 2
    assert {event["ph"] for event in events} >= {"M", "X"}


def test_a_trace_that_cannot_be_written_is_told_before_the_run(place: Path) -> None:
    done = graphrt(*RUN, "--trace", "no/trace.json", "--feed", "-", cwd=place, feed=number(0, 1))
    assert (done.returncode, done.stdout) == (1, "")
    assert "`--trace no/trace.json`" in done.stderr


def test_a_trace_that_finds_no_room_is_an_error_after_the_run(place: Path) -> None:
    done = graphrt(*RUN, "--trace", "/dev/full", "--feed", "-", cwd=place, feed=number(0, 1))
    assert done.returncode == 1
    assert done.stdout, "what the graph has sent"
    assert done.stderr == "error: `--trace /dev/full`: No space left on device\n"
