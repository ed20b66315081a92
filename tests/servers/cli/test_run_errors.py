"""`graphrt run` when something is wrong: exit code 1, and a message that names the place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt, packets

RUN = ["run", "graph.pbtxt", "--calculators", "calcs.py", "--feed", "-"]


def number(ts: int | str, value: object) -> str:
    return json.dumps({"stream": "number", "ts": ts, "value": value}) + "\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no json", "<stdin>:2:1: this is not JSON"),
        ("[1]", "<stdin>:2: a line is a JSON object, not [1]"),
        ('{"strem": "number"}', 'Did you mean "stream"?'),
        ('{"stream": "number", "ts": 0}', '"value" is missing beside "stream"'),
        ('{"stream": "number", "value": 0}', '"ts" is missing beside "stream"'),
        ('{"stream": 1, "ts": 0, "value": 0}', '"stream" is the name of a stream, not 1'),
        ('{"stream": "number", "ts": 0, "value": 0, "x": 1}', '"x" does not belong here'),
        ('{"stream": "number", "ts": 0.5, "value": 0}', 'stream "number" at 0.5: 0.5 is no'),
        ('{"stream": "number", "ts": true, "value": 0}', "true is no timestamp"),
        ('{"stream": "number", "ts": "MAXX", "value": 0}', 'Did you mean "MAX"'),
        (
            '{"stream": "number", "ts": 9223372036854775807, "value": 0}',
            "not an ordinary timestamp",
        ),
        ('{"stream": "number", "ts": 0, "value": {"type": "itn", "value": 1}}', "not a known type"),
        ('{"stream": "number", "ts": 0, "value": NaN}', "NaN is not JSON"),
        ('{"wait_until_idle": 1}', '"wait_until_idle" takes no argument'),
        ('{"set_bound": {"stream": "number"}}', '"ts" is missing'),
        ('{"set_bound": {"stream": "number", "ts": "X"}}', 'set_bound of "number"'),
        ('{"close": ["number"]}', '"close" is the name of a stream'),
        ("[" * 100000, "<stdin>:2: the JSON is nested too deep"),
    ],
)
def test_a_line_that_is_no_operation(place: Path, line: str, message: str) -> None:
    done = graphrt(*RUN, cwd=place, feed=number(0, 1) + line + "\n")
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: <stdin>:2")
    assert "Traceback" not in done.stderr


def test_a_feed_that_is_not_utf8(place: Path) -> None:
    done = graphrt(*RUN, cwd=place, feed=b'{"stream": "number", "ts": 0, "value": "\xff"}\n')
    assert done.returncode == 1
    assert "<stdin>:1: the byte 0xff at column 41 is not UTF-8" in done.stderr


def test_a_feed_file_that_is_not_there(place: Path) -> None:
    done = graphrt(*RUN[:-1], "no.jsonl", cwd=place)
    assert done.returncode == 1
    assert "`--feed no.jsonl`: No such file or directory" in done.stderr


def test_an_unknown_stream_in_the_feed(place: Path) -> None:
    feed = number(0, 1) + '{"stream": "nmber", "ts": 3, "value": 1}\n'
    done = graphrt(*RUN, cwd=place, feed=feed)
    assert done.returncode == 1
    assert '<stdin>:2: stream "nmber" at 3:' in done.stderr
    assert 'Did you mean "number"?' in done.stderr


def test_a_value_of_the_wrong_type(place: Path) -> None:
    done = graphrt(*RUN, cwd=place, feed=number(7, "one"))
    assert done.returncode == 1
    assert '<stdin>:1: stream "number" at 7:' in done.stderr
    assert 'The Packet stores "string", but "int" was requested.' in done.stderr


def test_an_int_will_do_for_a_float(place: Path) -> None:
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph.replace("Double", "Half"))
    done = graphrt(*RUN, cwd=place, feed=number(0, 3))
    assert json.loads(done.stdout.splitlines()[0])["value"] == 1.5


def test_a_timestamp_that_goes_back_is_blamed_on_its_own_line(place: Path) -> None:
    # The receiver refuses it in a later call; the message names the line that sent it.
    feed = number(5, 1) + number(5, 2) + '{"wait_until_idle": true}\n'
    done = graphrt(*RUN, cwd=place, feed=feed)
    assert done.returncode == 1
    assert '<stdin>:2: stream "number" at 5:' in done.stderr
    assert "Current minimum expected timestamp is 6 but received 5." in done.stderr
    at_the_end = graphrt(*RUN, cwd=place, feed=number(5, 1) + number(4, 2))
    assert '<stdin>:2: stream "number" at 4:' in at_the_end.stderr


def test_what_came_out_before_an_error_is_printed_before_it(place: Path) -> None:
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph.replace("Double", "FailAtThree"))
    feed = "".join(number(ts, ts) for ts in range(5))
    done = graphrt(*RUN, cwd=place, feed=feed)
    assert done.returncode == 1
    assert packets(done.stdout, "doubled") == [(0, 0), (1, 1), (2, 2)]
    assert 'Calculator::Process() for node "FailAtThree" failed' in done.stderr
    assert "three is too much" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_exception_of_a_calculator_has_the_line_of_its_author(place: Path) -> None:
    code = "\n@calculator\ndef Looks(number: int) -> int:\n    return {}[number]\n"
    (place / "looks.py").write_text("from graph_runtime import calculator\n" + code)
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph.replace("Double", "Looks"))
    done = graphrt(*RUN, "--calculators", "looks.py", cwd=place, feed=number(0, 3))
    assert 'node "Looks" failed: KeyError: 3' in done.stderr
    *_, hint = done.stderr.splitlines()
    assert hint.startswith("hint: raised at ")
    assert hint.endswith("looks.py:5, in Looks; --verbose shows the whole traceback")


def test_packets_that_a_node_holds_at_the_end_are_told(place: Path) -> None:
    (place / "graph.pbtxt").write_text("""
        input_stream: "number"
        node { name: "loop" calculator: "MakePairCalculator" input_stream: "number"
               input_stream: "again" output_stream: "pair"
               input_stream_info { tag_index: ":1" back_edge: true } }
        node { calculator: "PassThroughCalculator" input_stream: "pair" output_stream: "again" }
    """)
    done = graphrt(*RUN, cwd=place, feed=number(0, 3))
    assert done.returncode == 0
    first, _, last = done.stderr.strip().partition("\n")
    assert 'warning: graph.pbtxt: node "loop": waits for "number" together with "again"' in first
    assert last == (
        'warning: the run is over, and node "loop" holds "number" at 0 and waits for "again", '
        'which node "PassThroughCalculator" has not settled beyond Timestamp::PreStream()'
    )


def test_verbose_shows_where_a_calculator_failed(place: Path) -> None:
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph.replace("Double", "FailAtThree"))
    done = graphrt(*RUN, "--verbose", cwd=place, feed=number(0, 3))
    assert "Traceback" in done.stderr
    assert "calcs.py" in done.stderr
    assert "in FailAtThree" in done.stderr


def test_side_packets_are_printed_also_after_an_error(place: Path) -> None:
    (place / "graph.pbtxt").write_text(
        """input_stream: "number" output_stream: "out"
        node { calculator: "FailAtThree" input_stream: "number" output_stream: "out" }
        node { calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:p"
               node_options { [type.googleapis.com/mediapipe.ConstantSidePacketCalculatorOptions] {
                 packet { int_value: 7 } } } }"""
    )
    done = graphrt(*RUN, cwd=place, feed=number(0, 3))
    assert done.returncode == 1
    assert done.stdout == '{"side_packet": "p", "value": 7}\n'


def test_a_cancelled_run_is_an_error(place: Path) -> None:
    done = graphrt(*RUN, cwd=place, feed=number(0, 1) + '{"cancel": true}\n')
    assert (done.returncode, done.stdout) == (1, "")
    assert "the run was cancelled" in done.stderr


def test_an_unknown_stream_to_observe(place: Path) -> None:
    done = graphrt(*RUN, "--observe", "dubled", cwd=place)
    assert done.returncode == 1
    assert 'Unable to attach observer to output stream "dubled"' in done.stderr
    assert 'Did you mean "doubled"?' in done.stderr
    assert "hint: the streams of this graph are" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('node { calculatr: "x" }', "graph.pbtxt:1:8: "),
        ('\nnode { calculator: "Nope" }', "graph.pbtxt:2:1: No registered object with name: Nope"),
        ('input_stream: "Bad"', '"Bad" does not match'),
    ],
)
def test_a_graph_that_is_wrong(place: Path, text: str, message: str) -> None:
    (place / "graph.pbtxt").write_text(text)
    done = graphrt(*RUN, cwd=place)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "graph.pbtxt" in done.stderr


def test_a_graph_that_is_not_there(place: Path) -> None:
    done = graphrt("run", "no.pbtxt", cwd=place)
    assert (done.returncode, done.stderr) == (1, "error: no.pbtxt: no such file\n")
