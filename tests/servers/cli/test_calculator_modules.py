"""``--calculators MODULE_OR_FILE``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.servers.cli.process import graphrt

OK = "graph.pbtxt: ok (1 node)\n"


def validate(place: Path, *modules: str, verbose: bool = False) -> tuple[int, str, str]:
    words = ["--verbose"] if verbose else []
    done = graphrt("validate", *words, "--calculators", *modules, "--", "graph.pbtxt", cwd=place)
    return done.returncode, done.stdout, done.stderr


def test_a_module_is_found_in_the_current_directory(place: Path) -> None:
    assert validate(place, "calcs") == (0, OK, "")


def test_a_module_in_a_package(place: Path) -> None:
    (place / "acme").mkdir()
    (place / "acme" / "nodes.py").write_text((place / "calcs.py").read_text())
    assert validate(place, "acme.nodes") == (0, OK, "")


def test_a_file_may_be_given_twice_and_import_its_neighbours(place: Path) -> None:
    (place / "more.py").write_text("import calcs\n")
    assert validate(place, "more.py", "calcs.py", "./calcs.py") == (0, OK, "")


def test_a_file_may_be_named_like_a_module_that_exists(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "sub" / "json.py").write_text((place / "calcs.py").read_text())
    assert validate(place, "sub/json.py") == (0, OK, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise ValueError('no luck')\n", "bad.py:2: ValueError: no luck"),
        ("def f(:\n", "bad.py:1: SyntaxError: "),
        ("import nothing_there\n", "bad.py:1: ModuleNotFoundError: No module named"),
        ("import sys\nsys.exit('bye')\n", "bad.py:2: SystemExit: bye"),
        (
            "from graph_runtime import calculator\n@calculator\nclass NoCalculator: pass\n",
            "NoCalculator is not a calculator",
        ),
        (
            "from graph_runtime import *\n"
            "@calculator('PassThroughCalculator')\nclass Mine(Calculator): pass\n",
            'calculator "PassThroughCalculator" is already registered as',
        ),
    ],
)
def test_a_failing_import_names_file_line_and_exception(
    place: Path, text: str, message: str
) -> None:
    (place / "bad.py").write_text(text)
    status, out, errors = validate(place, "bad.py")
    assert (status, out) == (1, "")
    assert errors.startswith("error: `--calculators bad.py`: ")
    assert message in errors
    assert "Traceback" not in errors


def test_what_a_module_prints_goes_to_standard_error(place: Path) -> None:
    (place / "chatty.py").write_text("import calcs\nprint('hello')\n")
    assert validate(place, "chatty.py") == (0, OK, "hello\n")


def test_verbose_shows_the_traceback_of_an_import(place: Path) -> None:
    (place / "bad.py").write_text("1 / 0\n")
    _, _, errors = validate(place, "bad.py", verbose=True)
    assert "Traceback" in errors


def test_what_is_not_there(place: Path) -> None:
    assert validate(place, "none.py") == (1, "", "error: `--calculators none.py`: no such file\n")
    status, _, errors = validate(place, "no.module")
    assert status == 1
    assert "`--calculators no.module`: ModuleNotFoundError: No module named 'no'" in errors
    assert "hint: modules are searched for in the current directory" in errors


@pytest.mark.parametrize("package", ["calculators", "servers"])
def test_a_package_that_graphrt_hides_is_refused(package: str, tmp_path: Path) -> None:
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(
        "from graph_runtime import calculator\n\n\n"
        '@calculator("mine.Double")\ndef double(x: int) -> int:\n    return 2 * x\n'
    )
    graph = 'node { calculator: "mine.Double" input_stream: "x" output_stream: "y" }'
    (tmp_path / "g.pbtxt").write_text(f'input_stream: "x"\noutput_stream: "y"\n{graph}\n')
    done = graphrt("validate", "g.pbtxt", "--calculators", package, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{package} is a package of graphrt, which hides the one here" in done.stderr
    (named,) = re.findall(r"--calculators (\./\S+)", done.stderr)
    done = graphrt("validate", "g.pbtxt", "--calculators", named, cwd=tmp_path)
    assert done.stdout == "g.pbtxt: ok (1 node)\n"
