"""Tools of MCP servers that are programs: calls, and every way in which they go wrong."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from calculators.language.server_tools.resources import McpLane
from graph_runtime import ResourceError
from tests.calculators.language.server_tools.toolboxes import OpenToolbox, hostile
from tests.support.patience import PATIENCE
from tests.support.processes import is_running

# Only a child process imports it.
pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="the extra mcp is not installed")

PATHS = 'allow_path: "notes" path_argument: "*_file"'


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph")
    (path / "notes").mkdir()
    (path / "notes" / "out").symlink_to("/etc")
    return path


@pytest.fixture(scope="module")
def tools(directory: Path, child_program: None) -> Iterator[OpenToolbox]:
    """A server whose calls may take long, and whose results have up to 1000 bytes."""
    opened = OpenToolbox(
        f"{hostile(more=PATHS)} call_seconds: {PATIENCE} max_output_bytes: 1001", directory
    )
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hasty(directory: Path, child_program: None) -> Iterator[OpenToolbox]:
    """A server whose calls may take half a second."""
    opened = OpenToolbox(f"{hostile()} call_seconds: 0.5", directory)
    yield opened
    opened.close()


def eventually_works(tools: OpenToolbox) -> str:
    """Call until a call succeeds; return the server's process id."""
    end = time.monotonic() + PATIENCE
    while (result := tools.call("pid")).error is not None:
        assert time.monotonic() < end, f"no call succeeds any more: {result.error}"
    return result.output


def test_a_call_gets_the_arguments_and_gives_the_text(tools: OpenToolbox) -> None:
    assert tools.call("echo", '{"city": "Zürich", "days": [1, 2]}') == (
        '{"city": "Zürich", "days": [1, 2]}',
        None,
    )
    assert tools.call("echo", "").output == "{}"


def test_tools_have_the_schemas_of_their_server(tools: OpenToolbox) -> None:
    spec = tools.toolbox.tools["read"]
    assert spec.server == "hostile"
    assert spec.parameters["properties"]["target"]["format"] == "path"
    assert tools.toolbox.tools["echo"].description == "Does echo"


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", "17", '"text"', "{" * 100_000])
def test_arguments_that_are_no_object_fail_the_call(tools: OpenToolbox, arguments: str) -> None:
    assert tools.call("echo", arguments) == ("", "the arguments are not JSON object")


def test_a_tool_that_fails_gives_its_reason(tools: OpenToolbox) -> None:
    assert tools.call("raise") == ("", "it did not work")


def test_lines_that_are_no_messages_change_nothing(tools: OpenToolbox) -> None:
    assert tools.call("garbage").output == "after garbage"


@pytest.mark.parametrize("name", ["number", "deep", "surrogate"])
def test_an_answer_that_is_no_result_fails_its_call_alone(hasty: OpenToolbox, name: str) -> None:
    # What cannot be parsed is no answer: the call ends with its time.
    error = hasty.call(name).error
    assert error is not None
    assert "Traceback" not in error
    assert eventually_works(hasty)


@pytest.mark.parametrize("name", ["twice", "other"])
def test_answers_that_nobody_has_asked_for_change_nothing(tools: OpenToolbox, name: str) -> None:
    assert tools.call(name).error is None
    assert eventually_works(tools)


def test_a_server_that_floods_disturbs_no_other(directory: Path, child_program: None) -> None:
    calm = hostile("calm", allow="echo")
    opened = OpenToolbox(f"{hostile(allow='flood')} {calm} call_seconds: 2", directory)
    try:
        assert opened.call("flood").error is not None
        for _ in range(5):
            assert opened.call("echo").error is None
    finally:
        opened.close()


def test_what_is_no_text_is_named(tools: OpenToolbox) -> None:
    assert tools.call("image").output == "[image: image/png, not shown]"


def test_a_long_result_is_cut_at_a_character(tools: OpenToolbox) -> None:
    output = tools.call("long", '{"characters": 501}').output
    assert output == "é" * 500 + "\n[cut: the result is longer than 1001 bytes]"
    assert tools.call("long", '{"characters": 500}').output == "é" * 500


def test_a_message_without_end_ends_its_call_and_the_server_comes_back(tools: OpenToolbox) -> None:
    assert tools.call("gigabyte") == (
        "",
        "the tool server was restarted: it sent more than 1 MiB in one message",
    )
    eventually_works(tools)


def test_a_server_that_dies_fails_its_calls_and_comes_back(tools: OpenToolbox) -> None:
    before = eventually_works(tools)
    assert tools.call("die") == (
        "",
        "the tool server was restarted: it ended before it answered",
    )
    assert eventually_works(tools) != before


def test_a_call_that_hangs_ends_alone(hasty: OpenToolbox) -> None:
    before = eventually_works(hasty)
    assert hasty.call("hang") == ("", "the tool took longer than 0.5 s")
    # The server still answers, so it goes on.
    assert eventually_works(hasty) == before


def test_a_server_that_hangs_is_replaced(hasty: OpenToolbox) -> None:
    before = eventually_works(hasty)
    assert hasty.call("block") == ("", "the tool took longer than 0.5 s")
    assert eventually_works(hasty) != before


def test_calls_run_at_the_same_time(tools: OpenToolbox) -> None:
    results = tools.calls("echo", "raise", "image")
    assert results["echo"].output == "{}"
    assert results["raise"].error == "it did not work"


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "notes/../../secret",
        "notes/out/passwd",
        "file:///etc/passwd",
        "\0",
        "..",
    ],
)
@pytest.mark.parametrize("member", ["target", "log_file"])
def test_a_path_outside_of_the_allowed_ones_is_refused(
    tools: OpenToolbox, member: str, path: str
) -> None:
    result = tools.call("read", json.dumps({member: path}))
    assert result.output == ""
    assert result.error is not None
    assert result.error.startswith(f'the path in "{member}" ')
    assert "/etc" not in result.error


def test_a_path_below_an_allowed_one_is_passed_on(tools: OpenToolbox) -> None:
    arguments = '{"target": "notes/a.txt", "log_file": ["notes/b", "notes/x/../c"]}'
    assert tools.call("read", arguments) == (arguments, None)


def test_when_the_process_of_sessions_is_killed_its_servers_end_and_come_back(
    tools: OpenToolbox,
) -> None:
    before = int(eventually_works(tools))
    (lane,) = tools.toolbox._lanes
    assert isinstance(lane, McpLane)
    assert lane.pid is not None
    os.kill(lane.pid, signal.SIGKILL)
    assert int(eventually_works(tools)) != before
    assert not is_running(before)


def test_closing_ends_the_programs(directory: Path, child_program: None) -> None:
    opened = OpenToolbox(hostile(), directory)
    pid = int(eventually_works(opened))
    opened.close()
    assert not is_running(pid)


def test_a_program_that_does_not_end_is_killed(directory: Path, child_program: None) -> None:
    opened = OpenToolbox(hostile(start="stubborn"), directory)
    pid = int(eventually_works(opened))
    opened.close()
    assert not is_running(pid)


def test_a_server_whose_next_life_hangs_is_started_once_more(
    tmp_path: Path, child_program: None
) -> None:
    opened = OpenToolbox(
        f"{hostile(start='relapsing', more='start_seconds: 10')} call_seconds: 1", tmp_path
    )
    try:
        assert opened.call("die").error is not None
        assert eventually_works(opened)
        assert (tmp_path / "lives").read_text() == "xxx"
    finally:
        opened.close()


def test_a_server_that_dies_at_each_call_and_one_that_shouts_disturb_no_other(
    directory: Path, child_program: None
) -> None:
    dying, shouting = hostile(allow="die"), hostile("loud", allow="pid", start="shouting")
    calm = hostile("calm", allow="echo")
    opened = OpenToolbox(f"{dying} {shouting} {calm} call_seconds: 1", directory)
    try:
        for _ in range(4):
            results = opened.calls("die", "pid", "echo")
            assert results["die"].error is not None
            assert results["pid"].error is None
            assert results["echo"].output == "{}"
    finally:
        opened.close()


def test_only_allowed_tools_are_offered(directory: Path, child_program: None) -> None:
    opened = OpenToolbox(hostile(allow="[ep]*", start="loud"), directory)
    assert list(opened.toolbox.tools) == ["echo", "pid"]
    opened.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (hostile(start="dead"), 'server "hostile": it ended before it answered'),
        (
            hostile(start="silent", more="start_seconds: 0.2"),
            'server "hostile": it did not list its tools within 0.2 s',
        ),
        (
            hostile(start="mute", more="start_seconds: 1"),
            'server "hostile": it did not list its tools within 1 s',
        ),
        (
            'server { label: "none" command: "no-such-program" allow: "*" }',
            'server "none": its command was not found',
        ),
        (
            hostile(allow="write_*"),
            'server "hostile": allow: "write_*" matches none of its tools: block, deep, die',
        ),
        (
            f"{hostile()} {hostile('second')}",
            'tool "echo" of "second": "hostile" has a tool of that name; leave one of them out',
        ),
    ],
)
def test_a_server_that_cannot_serve_is_refused_by_its_label(
    directory: Path, child_program: None, options: str, reason: str
) -> None:
    with pytest.raises(ResourceError) as caught:
        OpenToolbox(options, directory)
    assert str(caught.value).startswith(f'node "tools": {reason}')
