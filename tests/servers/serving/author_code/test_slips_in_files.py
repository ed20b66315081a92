"""Slips in authors' files: nothing registered, two of one name, an edit that did not load."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest

from graph_runtime import (
    REGISTRY,
    Registry,
    RunError,
    ValidationError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.testing import CalculatorRunner
from servers.serving.python_path import registry_with

SHOUT = """\
from graphrt import Calculator, CalculatorContext, In, Out, calculator


@calculator
class Shout(Calculator):
    text = In[str]("TEXT")
    loud = Out[str]("TEXT")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.loud, cc.get(self.text).upper())
"""


def imported(*paths: Path) -> tuple[Registry, list[str]]:
    imports = registry_with(paths, Registry(REGISTRY))
    return imports.registry, [str(each) for each in imports.failures]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("shout.py", SHOUT.replace("@calculator\n", ""), "Shout is not registered: write @calcula"),
        (
            "shout.py",
            "def shout() -> str: ...\n",
            "write @calculator above a",
        ),
        ("acme/__init__.py", "", "its __init__.py imports no module with a @calculator"),
    ],
)
def test_a_file_that_registers_nothing_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, text: str, expected: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    path = file.parent if name.startswith("acme") else file
    with caplog.at_level(logging.WARNING):
        registry, failures = imported(path)
    assert failures == []
    assert expected in caplog.text
    with pytest.raises(ValidationError, match=f"{path.name}: .*"):
        validate_graph(parse_graph_text('node { calculator: "Shout" }'), registry=registry)


def test_modules_beside_one_that_registers_are_no_slips(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "words.py").write_text("WORDS = ()\n")
    (tmp_path / "shout.py").write_text(SHOUT)
    with caplog.at_level(logging.WARNING):
        _, failures = imported(tmp_path)
    assert (failures, caplog.text) == ([], "")


def test_two_calculators_of_one_name_in_a_file_are_a_slip(tmp_path: Path) -> None:
    (tmp_path / "shout.py").write_text(SHOUT + "\n\n" + SHOUT.partition("\n\n\n")[2])
    _, (failure,) = imported(tmp_path / "shout.py")
    line = SHOUT.count("\n") + 3
    assert f"shout.py:{line}: GraphError" in failure
    assert 'calculator "Shout" is defined twice in shout: each needs its own name' in failure


def test_two_functions_of_one_name_in_a_file_are_a_slip(tmp_path: Path) -> None:
    text = "@calculator\ndef Twice(text: str) -> str:\n    return text\n\n\n"
    (tmp_path / "twice.py").write_text(f"from graphrt import calculator\n\n\n{text}{text}")
    _, (failure,) = imported(tmp_path / "twice.py")
    assert 'calculator "Twice" is defined twice in twice' in failure


def test_a_traceback_shows_the_lines_that_run_after_an_edit_that_did_not_load(
    tmp_path: Path,
) -> None:
    file = tmp_path / "shout.py"
    file.write_text(SHOUT.replace(".upper()", ".upperr()"))
    registry, _ = imported(file)

    def shown() -> str:
        runner = CalculatorRunner("Shout", registry=registry)
        runner.push("TEXT", "a", at=0)
        with pytest.raises(RunError) as raised:
            runner.run()
        return "".join(traceback.format_exception(raised.value.errors[0]))

    line = "cc.emit(self.loud, cc.get(self.text).upperr())"
    assert line in shown()
    file.write_text("# moved\n" * 8 + SHOUT + "1 +\n")
    _, (failure,) = imported(file)
    assert "SyntaxError" in failure
    assert line in shown()
    file.write_text("# moved\n" * 8 + SHOUT + "missing\n")
    _, (failure,) = imported(file)
    assert "NameError" in failure
    assert line in shown()
