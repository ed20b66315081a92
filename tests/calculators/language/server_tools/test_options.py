"""Options of tools nodes: what is wrong with them is said before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from calculators.kit import installed_points
from calculators.language.server_tools.resources import ToolsResourceInitializer
from calculators.language.server_tools.tools_options import tool_paths
from graph_runtime import (
    REGISTRY,
    Registry,
    ResourceError,
    ResourceSettings,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.language.server_tools.toolboxes import GRAPH

SERVER = 'server { label: "a" command: "python" allow: "*" %s }'


def check(options: str, directory: Path) -> None:
    (node,) = validate_graph(parse_graph_text(GRAPH % options), registry=Registry(REGISTRY)).nodes
    ToolsResourceInitializer().check(node, ResourceSettings(directory))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", "it has no tools; it needs at least node_options"),
        ('server { command: "python" }', "server[0]: it has no label"),
        ('server { label: "a" }', 'server "a": it needs a command or a url, and not both'),
        (
            'server { label: "a" command: "x" url: "http://x" allow: "*" }',
            'server "a": it needs a command or a url, and not both',
        ),
        ('server { label: "a" command: "x" }', 'server "a": no tool of it is allowed; name them'),
        (
            'server { label: "a" url: "file:///etc" allow: "*" }',
            'server "a": its url is not an http:// or https:// address',
        ),
        (
            'server { label: "a" url: "http://x" args: "y" allow: "*" }',
            'server "a": args is for a command',
        ),
        (SERVER % 'env: "GRAPHRT_NO_SUCH"', 'server "a": env: the environment has no variable'),
        (SERVER % 'allow_path: "nowhere"', 'server "a": allow_path: there is no "nowhere"'),
        (SERVER % "start_seconds: 0", 'server "a": start_seconds is not more than 0'),
        (SERVER % 'bearer_token_env: "GRAPHRT_NO_SUCH"', 'server "a": bearer_token_env: the env'),
        (f"{SERVER % ''} {SERVER % ''}", 'two servers or modules have the label "a"'),
        ('python: "x" max_turns: 0', "max_turns: 0 is not 1 or more"),
        ('python: "x" max_calls: -1', "max_calls: -1 is not 0 or more"),
        ('python: "x" call_seconds: 0', "call_seconds: 0 is not more than 0"),
        ('python: "x" total_seconds: -1', "total_seconds: -1 is not more than 0"),
        ('python: "x" max_output_bytes: 0', "max_output_bytes: 0 is not from 1 to 1048576"),
        ('python: "x" python_processes: 65', "python_processes: 65 is not from 1 to 64"),
        ('python: "x" allow_path: "nowhere"', 'allow_path: there is no "nowhere"'),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, options: str, reason: str) -> None:
    if 'label: "a"' in options:
        pytest.importorskip("mcp", reason="the extra mcp is not installed")
    with pytest.raises(ResourceError) as caught:
        check(options, tmp_path)
    assert str(caught.value).startswith(f'node "tools": {reason}')


def test_servers_without_the_extra_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_points, "find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r'need an extra: pip install "graphrt\[mcp\]"'):
        check(SERVER % "", tmp_path)


def test_functions_need_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_points, "find_spec", lambda name: None)
    check('python: "my_tools"', tmp_path)


def test_the_same_tools_outlive_an_edit_of_the_bounds_only(tmp_path: Path) -> None:
    (tmp_path / "my_tools.py").write_text("def f() -> None: ...")

    def identity(options: str) -> str | None:
        (node,) = validate_graph(
            parse_graph_text(GRAPH % options), registry=Registry(REGISTRY)
        ).nodes
        return ToolsResourceInitializer().identity(node, ResourceSettings(tmp_path))

    first = identity('python: "my_tools"')
    assert identity('python: "my_tools" max_turns: 3 max_calls: 1 total_seconds: 1') == first
    # Tools that may not be called are not offered.
    assert identity('python: "my_tools" max_turns: 1') != first
    assert identity('python: "my_tools" max_output_bytes: 3') != first
    (tmp_path / "my_tools.py").write_text("def g() -> None: ...")
    assert identity('python: "my_tools"') != first


def test_the_files_of_tools_are_those_that_a_reload_looks_at() -> None:
    text = 'python: "acme.tools" server { label: "a" command: "python" args: "-u" args: "w.py" }'
    found = list(tool_paths(parse_graph_text(GRAPH % text)))
    assert found == ["acme/tools.py", "acme/tools/__init__.py", "w.py"]
