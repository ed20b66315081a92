"""Python functions as tools: schemas of their annotations, calls, and how they go wrong."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from calculators.language.server_tools.resources import FunctionLane
from graph_runtime import ResourceError
from tests.calculators.language.server_tools.toolboxes import OpenToolbox
from tests.support.patience import PATIENCE

TOOLS = '''
import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal


@dataclass
class Place:
    city: str
    country: str = "FR"


def weather(
    place: Annotated[Place, "where"], days: int = 1, unit: Literal["C", "F"] = "C"
) -> dict[str, object]:
    """Get the weather of a place"""
    return {"city": place.city, "country": place.country, "days": days, "unit": unit}


async def later(text: str) -> str:
    await asyncio.sleep(0)
    return text


def nothing() -> None: ...


def raises() -> None:
    raise ValueError("it did not work")


def leaves() -> None:
    sys.exit(7)


def dies() -> None:
    os._exit(7)


def hangs() -> None:
    time.sleep(3600)


def prints(mebibytes: int) -> str:
    for _ in range(mebibytes):
        print("x" * 1024 * 1024)
    return "printed"


def prints_below_python() -> str:
    for descriptor in (1, 2):
        for _ in range(64):
            os.write(descriptor, b"x" * 1024 * 1024)
    return "printed"


def long(characters: int) -> str:
    return "é" * characters


def odd() -> object:
    return object()


def pid() -> int:
    return os.getpid()


def read(file: Path, others: list[Path] = []) -> str:
    return f"{file.read_text()} {[each.name for each in others]}"


def _private() -> None: ...
'''


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph")
    (path / "acme_tools.py").write_text(TOOLS)
    (path / "notes").mkdir()
    (path / "notes" / "a.txt").write_text("inside")
    return path


@pytest.fixture(scope="module")
def tools(directory: Path, in_process_engine: None) -> Iterator[OpenToolbox]:
    opened = OpenToolbox(
        'python: "acme_tools" allow_path: "notes" python_processes: 1 '
        f"call_seconds: {PATIENCE} max_output_bytes: 1001",
        directory,
    )
    yield opened
    opened.close()


def test_the_public_functions_of_the_module_are_tools(tools: OpenToolbox) -> None:
    names = list(tools.toolbox.tools)
    assert names[:3] == ["weather", "later", "nothing"]
    assert not {"_private", "dataclass", "Place"} & set(names)
    assert tools.toolbox.labels == ["acme_tools"]


def test_annotations_become_the_schema(tools: OpenToolbox) -> None:
    spec = tools.toolbox.tools["weather"]
    assert spec.description == "Get the weather of a place"
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "place": {"$ref": "#/$defs/Place", "description": "where"},
            "days": {"type": "integer", "default": 1},
            "unit": {"enum": ["C", "F"], "default": "C"},
        },
        "required": ["place"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "country": {"type": "string", "default": "FR"},
                },
                "required": ["city"],
            }
        },
    }


def test_arguments_arrive_as_the_annotated_types_and_results_are_json(tools: OpenToolbox) -> None:
    result = tools.call("weather", '{"place": {"city": "Nîmes"}, "unit": "F"}')
    assert result == ('{"city":"Nîmes","country":"FR","days":1,"unit":"F"}', None)
    assert tools.call("later", '{"text": "as it is"}') == ("as it is", None)
    assert tools.call("nothing") == ("", None)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("weather", "{}", "the arguments are wrong: Object missing required field `place`"),
        (
            "later",
            '{"text": 1}',
            "wrong: Expected `str`, got `int` - at `$.text`",
        ),
        ("later", '{"text": "a", "more": 1}', "unknown field `more`"),
        ("later", "[", "the arguments are wrong"),
        ("raises", "{}", "ValueError: it did not work"),
        ("leaves", "{}", "SystemExit: 7"),
        ("odd", "{}", "the tool returned a object, which is not JSON"),
        ("prints", '{"mebibytes": 1024}', "the tool printed more than 1 MiB"),
    ],
)
def test_a_call_that_fails_says_why_and_its_process_goes_on(
    tools: OpenToolbox, name: str, arguments: str, error: str
) -> None:
    before = tools.call("pid").output
    result = tools.call(name, arguments)
    assert result.output == ""
    assert result.error is not None
    assert error in result.error
    assert tools.call("pid").output == before


def test_what_is_printed_below_python_is_dropped(tools: OpenToolbox) -> None:
    assert tools.call("prints_below_python") == ("printed", None)


def test_a_long_result_is_cut_at_a_character(tools: OpenToolbox) -> None:
    output = tools.call("long", '{"characters": 100000000}').output
    assert output == "é" * 500 + "\n[cut: the result is longer than 1001 bytes]"


def test_a_function_that_ends_its_process_fails_alone(tools: OpenToolbox) -> None:
    before = tools.call("pid").output
    assert tools.call("dies") == ("", "the tool's process ended: it exited with status 7")
    assert tools.call("pid").output != before


def test_a_process_that_is_killed_between_calls_is_replaced(tools: OpenToolbox) -> None:
    before = int(tools.call("pid").output)
    os.kill(before, signal.SIGKILL)
    results = [tools.call("pid") for _ in range(2)]
    assert int(results[-1].output) != before


@pytest.mark.parametrize("path", ["/etc/passwd", "acme_tools.py", "notes/../acme_tools.py"])
def test_a_path_outside_of_the_allowed_ones_is_refused(tools: OpenToolbox, path: str) -> None:
    result = tools.call("read", f'{{"file": "{path}"}}')
    assert result == ("", "the path is outside of the allowed directories")


def test_a_path_below_an_allowed_one_is_read(tools: OpenToolbox) -> None:
    assert tools.call("read", '{"file": "notes/a.txt", "others": ["notes/b"]}').output == (
        "inside ['b']"
    )


def test_a_function_that_hangs_ends_alone(directory: Path, in_process_engine: None) -> None:
    opened = OpenToolbox('python: "acme_tools" python_processes: 2 call_seconds: 0.5', directory)
    results = opened.calls("hangs", "nothing")
    assert results["hangs"].error == "the tool took longer than 0.5 s"
    assert results["nothing"].error is None
    (lane,) = opened.toolbox._lanes
    assert isinstance(lane, FunctionLane)
    opened.close()
    assert lane.pids == []


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (None, 'there is no module "broken_tools"'),
        ("1 / 0", "importing it raised ZeroDivisionError: division by zero"),
        ("import no_such_library", 'there is no module "no_such_library"'),
        ("raise SystemExit(3)", "importing it raised SystemExit: 3"),
        ("x = 1", "it defines no public functions"),
        ("def f(x): ...", 'broken_tools.f: parameter "x" has no type; write one'),
        ("def f(x: complex): ...", "broken_tools.f: a parameter has a type that JSON has not"),
        ("def f(*x: int): ...", 'parameter "x" has no name of its own in a call'),
        ("__all__ = ['g']", "broken_tools.g: __all__ names it, but it is not a function"),
        ("def f(x: Missing): ...", "broken_tools.f: its annotations cannot be read"),
    ],
)
def test_a_module_without_usable_tools_is_refused_at_load(
    tmp_path: Path, in_process_engine: None, module: str | None, reason: str
) -> None:
    if module is not None:
        text = f"from __future__ import annotations\n{textwrap.dedent(module)}\n"
        (tmp_path / "broken_tools.py").write_text(text)
    with pytest.raises(ResourceError) as caught:
        OpenToolbox('python: "broken_tools"', tmp_path)
    assert reason in str(caught.value)
