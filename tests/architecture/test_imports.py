"""Imports: every module can be imported, without a warning, and loads no more than it may."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping

from bench.house import Module, processes_with_the_runtime
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

ROOMS = ("graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers")

#: Packages of extras that need not be installed: without them their modules cannot be imported.
EXTRAS = {"ray"}

#: Imports modules in the order that is given; there is no circle (`test_circles`), so none of the
#: orders matters, and one is enough to find what cannot be imported or warns.
IMPORT_EACH = """
import importlib, sys, traceback
failed = False
extras = sys.argv[1].split()
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name in extras:
            continue
        failed = True
        print("import", name, "failed:", traceback.format_exc(), flush=True)
sys.exit(failed)
"""

NEW_TOP_LEVELS = """
import sys
before = set(sys.modules)
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - set(sys.stdlib_module_names)))
print(*sorted(name for name in sys.modules if name.startswith("google.") and name.count(".") == 1))
"""


def names_of_modules(room: str) -> Iterator[str]:
    """Return the dotted names of a room's modules."""
    for path in sorted((ROOT / room).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter in which every warning is an error."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_each_module_can_be_imported_without_a_warning() -> None:
    names = [name for room in ROOMS for name in names_of_modules(room)]
    done = python(IMPORT_EACH, " ".join(EXTRAS), *reversed(names))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_runtime_needs_the_standard_library_and_protobuf_only() -> None:
    rooms = ("graphrt_base", "protos", "graph_runtime")
    done = python(NEW_TOP_LEVELS, *(name for room in rooms for name in names_of_modules(room)))
    assert done.returncode == 0, done.stderr
    top_levels, google = done.stdout.splitlines()
    assert set(top_levels.split()) <= {"google", "graph_runtime", "graphrt_base", "protos"}
    assert set(google.split()) <= {"google.protobuf", "google._upb"}


def test_a_module_that_cannot_be_imported_is_found() -> None:
    done = python(IMPORT_EACH, "", "protos.pool", "protos.nothing_of_that_name")
    assert done.returncode == 1
    assert "import protos.nothing_of_that_name failed" in done.stdout


def test_importing_the_runtime_starts_nothing() -> None:
    done = python(
        "import graph_runtime, threading, sys;"
        "print(threading.active_count(), 'calculators' in sys.modules, 'servers' in sys.modules)"
    )
    assert done.stdout.split() == ["1", "False", "False"], done.stderr


def test_no_process_of_a_model_imports_the_runtime(modules: Mapping[str, Module]) -> None:
    assert processes_with_the_runtime(modules) == []
