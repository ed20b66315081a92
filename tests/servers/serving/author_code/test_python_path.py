"""Calculators of ``python_path``: found, kept apart, and import errors explained."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import Any

import pytest

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import REGISTRY, CalculatorGraph, Registry, ValidationError
from servers.config import GraphEntry, read_config
from servers.serving.graph_source import GraphSource
from servers.serving.loaded_graph import load_graph
from servers.serving.python_path import ModuleImports, registry_with

HEAD = """\
from graph_runtime import calculator
"""


def shout(mark: str, name: str = "Shout") -> str:
    """Return a module with a calculator that appends a mark."""
    return f"""{HEAD}
@calculator
def {name}(text: str) -> str:
    return text + "{mark}"
"""


def write(folder: Path, **texts: str) -> Path:
    """Write modules into a folder."""
    for name, text in texts.items():
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def importing(*paths: Path, parent: Registry = REGISTRY) -> ModuleImports:
    imports = registry_with(paths, parent)
    assert imports.failures == ()
    return imports


def output(imports: ModuleImports, name: str = "Shout") -> Any:
    """Return the calculator's output for "a"."""
    with CalculatorGraph(
        text_config=f'input_stream: "in" output_stream: "out" '
        f'node {{ calculator: "{name}" input_stream: "in" output_stream: "out" }}',
        registry=imports.registry,
    ) as graph:
        values: list[Any] = []
        graph.observe_output_stream("out", lambda _, packet: values.append(packet.value))
        graph.start_run()
        graph.add_packet_to_input_stream("in", "a", 0)
        graph.close_all_input_streams()
        graph.wait_until_done()
    (value,) = values
    return value


def failing(*paths: Path, parent: Registry = REGISTRY) -> list[str]:
    """Return the failures, each with its path relative to the first one."""
    root = paths[0] if paths[0].is_dir() else paths[0].parent
    return [
        str(failure).replace(f"{root}/", "") for failure in registry_with(paths, parent).failures
    ]


# Finding ------------------------------------------------------------------------------------------


def test_a_path_may_be_a_file_a_folder_or_a_package(tmp_path: Path) -> None:
    write(tmp_path / "folder", shout=shout("!"), _private="raise ValueError")
    write(tmp_path / "nodes", __init__="from . import more", more=shout("?"))
    file = write(tmp_path, alone=shout(".")) / "alone.py"
    assert output(importing(tmp_path / "folder")) == "a!"
    assert output(importing(tmp_path / "nodes")) == "a?"
    assert output(importing(file)) == "a."
    # A folder that is not a package provides its files, and the packages in it.
    file.unlink()
    assert output(importing(tmp_path)) == "a?"


def test_modules_find_their_neighbours_whichever_way_they_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        marks='MARK = "!"\ndef late() -> str:\n    import more.deep\n    return more.deep.MARK\n',
        **{
            "more/__init__": "",
            "more/deep": 'from marks import MARK as FIRST\nMARK = FIRST + "?"\n',
        },
        nodes=f"""{HEAD}
import os.path
import marks as named
from marks import MARK, late
from .marks import MARK as again
from more import deep

@calculator
def Shout(text: str) -> str:
    import marks
    return os.path.join(text, MARK + again + deep.MARK + late() + named.MARK + marks.MARK)
""",
    )
    assert output(importing(tmp_path)) == "a/!!!?!?!!"


def test_options_of_a_module_are_named_after_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        loudness=f"""{HEAD}
from dataclasses import dataclass
from graph_runtime import Calculator, CalculatorContext, In, Options, Out, options

@options
@dataclass(frozen=True)
class ShoutOptions:
    mark: str = "!"

@calculator
class Shout(Calculator):
    text = In[str]()
    loud = Out[str]()
    options = Options(ShoutOptions)

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.loud, cc.get(self.text) + self.options.mark)
""",
    )
    assert output(importing(tmp_path)) == "a!"
    graph = tmp_path / "graph.pbtxt"
    graph.write_text(
        'input_stream: "in" output_stream: "out" node { calculator: "Shout" input_stream: "in" '
        'output_stream: "out" node_options { [type.googleapis.com/loudness.ShoutOptions] '
        '{ mark: "?" } } }'
    )
    GraphSource(str(graph), importing(tmp_path).registry).validate()


# Kept apart ---------------------------------------------------------------------------------------


def test_modules_of_the_same_name_do_not_collide(tmp_path: Path) -> None:
    first = importing(write(tmp_path / "a", marks='M = "a"', nodes=f"import marks\n{shout('1')}"))
    second = importing(write(tmp_path / "b", marks='M = "b"', nodes=f"import marks\n{shout('2')}"))
    assert (output(first), output(second)) == ("a1", "a2")
    assert "marks" not in sys.modules
    assert REGISTRY.find_calculator("Shout") is None


def test_a_module_may_be_named_like_a_known_one(tmp_path: Path) -> None:
    imports = importing(write(tmp_path, json=shout("!"), nodes="import json\njson.Shout\n"))
    assert output(imports) == "a!"
    assert hasattr(sys.modules["json"], "dumps")


def test_unused_modules_are_forgotten(tmp_path: Path) -> None:
    before = set(sys.modules)
    imports = importing(write(tmp_path, nodes=shout("!")))
    assert set(sys.modules) - before
    del imports
    gc.collect()
    assert set(sys.modules) <= before


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert output(importing(write(tmp_path, nodes=shout("!")))) == "a!"
    assert output(importing(write(tmp_path, nodes=shout("?????")))) == "a?????"


# Failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise ValueError('no luck')\n", "bad.py:2: ValueError: no luck"),
        ("def f(:\n", "bad.py:1: SyntaxError: invalid syntax"),
        ("\nimport nothing_there\n", "bad.py:2: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit('bye')\n", "bad.py:2: SystemExit: bye"),
        ("import neighbour\n", "bad.py:1: ZeroDivisionError: division by zero"),
        (
            f"{HEAD}@calculator\nclass NoCalculator: pass\n",
            "bad.py:2: GraphError: NoCalculator is not a calculator",
        ),
        (
            f"{HEAD}def f(text: str) -> str: ...\ncalculator('PassThroughCalculator')(f)\n",
            'bad.py:3: GraphError: calculator "PassThroughCalculator" is already registered as '
            "calculators.core.pass_through_calculator.PassThroughCalculator; bad.f needs another "
            "name",
        ),
    ],
)
def test_a_failing_import_names_file_line_and_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    from calculators import core

    core.register(REGISTRY)
    write(tmp_path, bad=text, good=shout("!"))
    (tmp_path / "neighbour.py").write_text("1 / 0\n" if "neighbour" in text else "")
    (failure, *others) = failing(tmp_path)
    assert failure.startswith(message)
    assert len(others) == ("neighbour" in text)
    imports = registry_with([tmp_path], REGISTRY)
    assert output(imports) == "a!"


def test_name_clashes_are_reported(tmp_path: Path) -> None:
    write(tmp_path, a=shout("1"), b=shout("2"))
    (failure,) = failing(tmp_path)
    assert failure == (
        'b.py:3: GraphError: calculator "Shout" is already registered as a.Shout; b.Shout needs '
        "another name"
    )
    shared = importing(write(tmp_path / "shared", nodes=shout("3")))
    (failure,) = failing(write(tmp_path / "own", more=shout("4")), parent=shared.registry)
    assert "already registered as nodes.Shout; more.Shout needs another name" in failure


def test_options_of_one_name_are_one_type_in_the_process(tmp_path: Path) -> None:
    declaring = """
from graph_runtime import options

@options("acme.Clashing")
class Clashing:
    mark: {}
"""
    for name, kind in (("a", "str"), ("b", "str"), ("c", "int")):
        write(tmp_path / name, nodes=declaring.format(kind))
    importing(tmp_path / "a")
    importing(tmp_path / "b")
    (failure,) = failing(tmp_path / "c")
    assert failure.startswith("nodes.py:4: GraphConfigError: acme.Clashing cannot be declared: ")


def test_two_modules_of_one_name_in_a_list_are_reported(tmp_path: Path) -> None:
    first = write(tmp_path / "a", nodes=shout("1"))
    second = write(tmp_path / "b", nodes=shout("2"))
    imports = registry_with([first, second], REGISTRY)
    (failure,) = imports.failures
    assert failure.file == second / "nodes.py"
    assert failure.reason.endswith("a/nodes.py is the module nodes too; rename one of them")
    assert output(imports) == "a1"


@pytest.mark.parametrize("name", ["nothing", "nothing.py", "data.txt"])
def test_an_invalid_path_is_reported(tmp_path: Path, name: str) -> None:
    (tmp_path / "data.txt").write_text("")
    (failure,) = registry_with([tmp_path / name], REGISTRY).failures
    assert failure.file.name == name
    assert failure.reason in ("No such file or directory", "Not a directory")


# Served -------------------------------------------------------------------------------------------

GRAPH = """\
input_stream: "input"
output_stream: "output"
node { calculator: "Answer" input_stream: "input" output_stream: "output" }
"""


def answering(text: str) -> str:
    """Return a module whose calculator answers every request with this text."""
    return f"""{HEAD}
from calculators.kit.requests.http_payload import HttpPayload

@calculator
def Answer(request: HttpPayload) -> str:
    return "{text}"
"""


def site(folder: Path, config: str) -> dict[str, GraphEntry]:
    """Write a config with the graphs ``a`` and ``b``."""
    for name in ("a", "b"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "graph.pbtxt").write_text(GRAPH)
    (folder / "config.json").write_text(config)
    return {entry.name: entry for entry in read_config(folder / "config.json").graphs}


async def answer(entry: GraphEntry) -> list[ResponsePacket]:
    packets: list[ResponsePacket] = []
    graph = await load_graph(entry, REGISTRY)
    await graph.answer(HttpPayload("/v3/x", {}), packets.append)
    await graph.close()
    return packets


def test_each_graph_has_the_calculators_of_its_own_path(tmp_path: Path) -> None:
    write(tmp_path, **{"a/nodes": answering("of a"), "more/nodes": answering("of b")})
    entries = site(
        tmp_path,
        """{"mediapipe_config_list": [
            {"name": "a", "python_path": "a/nodes.py"},
            {"name": "b", "python_path": ["more"]}
        ]}""",
    )

    async def both() -> Any:
        return tuple(await asyncio.gather(answer(entries["a"]), answer(entries["b"])))

    assert asyncio.run(both()) == (["of a"], ["of b"])


def test_a_graph_fails_with_the_reason_only_if_it_needs_what_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "a", nodes="1 / 0\n")
    write(tmp_path / "b", nodes=answering("yes"), broken="1 / 0\n")
    entries = site(
        tmp_path,
        """{"mediapipe_config_list": [
            {"name": "a", "python_path": "a"}, {"name": "b", "python_path": "b"}
        ]}""",
    )
    with pytest.raises(ValidationError) as caught:
        asyncio.run(answer(entries["a"]))
    file = tmp_path / "a" / "nodes.py"
    reason = "line 1: ZeroDivisionError: division by zero"
    assert f"(modules that failed to import: {file}: {reason})" in str(caught.value)
    assert asyncio.run(answer(entries["b"])) == ["yes"]
    assert [record.getMessage() for record in caplog.records] == [
        f"a: a module cannot be imported: {file}:1: ZeroDivisionError: division by zero",
        f"b: a module cannot be imported: {tmp_path}/b/broken.py:1: ZeroDivisionError: division"
        " by zero",
    ]


def test_paths_are_relative_to_the_config(tmp_path: Path) -> None:
    entries = site(
        tmp_path,
        """{"python_path": ["shared", "/elsewhere"], "mediapipe_config_list": [
            {"name": "a", "python_path": "../up.py"}, {"name": "b"}
        ]}""",
    )
    assert entries["a"].python_path == (tmp_path / "../up.py",)
    assert entries["b"].python_path == ()
    config = read_config(tmp_path / "config.json")
    assert config.python_path == (tmp_path / "shared", Path("/elsewhere"))
