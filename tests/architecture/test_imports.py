"""Imports: every module can be the first one, without a warning, and loads no more than it may."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.checkout import ROOT
from tests.patience import PATIENCE

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
ROOMS = ("protos", "graph_runtime", "calculators")
#: Number of modules that one test imports.
SHARE = 80

#: Imported before a room's modules: what they use of others, which knows none of them.
BELOW = {"calculators": ("msgspec", "numpy", "graph_runtime", "protos.pool")}

#: Imports a package, as Python does first for any of its modules, and then each module in a forked
#: process: equivalent to a fresh interpreter for each, without the time to start it.
IMPORT_EACH = """
import asyncio, importlib.metadata, inspect, os, sys, traceback
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

def import_alone(name):
    if os.fork():
        return
    try:
        importlib.import_module(name)
    except BaseException:
        print("import", name, "failed:", traceback.format_exc(), flush=True)
        os._exit(1)
    os._exit(0)

below, package, *names = sys.argv[1:]
for name in [*below.split(), package]:
    importlib.import_module(name)
failed = running = 0
for name in names:
    if name in sys.modules:
        continue
    import_alone(name)
    running += 1
    if running == os.cpu_count():
        failed, running = failed + (os.wait()[1] != 0), running - 1
for _ in range(running):
    failed += os.wait()[1] != 0
sys.exit(min(failed, 1))
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


def modules(room: str) -> Iterator[str]:
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


def shares() -> Iterator[tuple[str, ...]]:
    """Yield all rooms in parts: a room, and some of its modules."""
    for room in ROOMS:
        names = list(modules(room))
        for start in range(0, len(names), SHARE):
            yield (room, *names[start : start + SHARE])


@needs_fork
@pytest.mark.parametrize("share", list(shares()), ids=lambda share: f"{share[0]}, {share[1]} ...")
def test_each_module_can_be_the_first_to_be_imported(share: tuple[str, ...]) -> None:
    done = python(IMPORT_EACH, " ".join(BELOW.get(share[0], ())), *share)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("room", ["protos", "graph_runtime"])
def test_the_runtime_needs_the_standard_library_and_protobuf_only(room: str) -> None:
    done = python(NEW_TOP_LEVELS, *modules(room))
    assert done.returncode == 0, done.stderr
    top_levels, google = done.stdout.splitlines()
    assert set(top_levels.split()) <= {"google", "graph_runtime", "protos"}
    assert set(google.split()) <= {"google.protobuf", "google._upb"}


@needs_fork
def test_a_module_that_cannot_be_imported_is_found() -> None:
    done = python(IMPORT_EACH, "", "protos", "protos.pool", "protos.nothing_of_that_name")
    assert done.returncode == 1
    assert "import protos.nothing_of_that_name failed" in done.stdout


def test_importing_the_runtime_starts_nothing() -> None:
    done = python(
        "import graph_runtime, threading, sys;"
        "print(threading.active_count(), 'calculators' in sys.modules, 'servers' in sys.modules)"
    )
    assert done.stdout.split() == ["1", "False", "False"], done.stderr
