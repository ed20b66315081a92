"""The engine's hot path, compiled by mypyc, for wheels, tests and measurements.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel --no-deps .
    python hatch_build.py build/compiled

The first, hatchling's build hook, makes a wheel for this machine's Python, with the compiled
modules beside their sources; without the variable the wheel is pure Python, for every machine. The
second copies ``graph_runtime`` and compiles the copy, to be put into PYTHONPATH. Nothing is ever
compiled beside the sources that are edited: Python would go on importing what was compiled before.

Needs a C compiler, mypy and setuptools.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
NEEDS = ["mypy>=2.4,<3", "setuptools>=80"]

#: The modules that a packet goes through. What authors subclass, and coroutines of awaited calls,
#: stay as they are.
COMPILED = (
    "graph_runtime/authoring/context.py",
    "graph_runtime/engine/drivers/driver.py",
    "graph_runtime/engine/drivers/on_asyncio.py",
    "graph_runtime/engine/drivers/sync.py",
    "graph_runtime/engine/error_log.py",
    "graph_runtime/engine/flow.py",
    "graph_runtime/engine/node.py",
    "graph_runtime/engine/ready_queue.py",
    "graph_runtime/engine/run.py",
    "graph_runtime/engine/scheduler.py",
    "graph_runtime/engine/throttling.py",
    "graph_runtime/packet.py",
    "graph_runtime/streams/input_stream.py",
    "graph_runtime/streams/output_stream.py",
)

# Run where the copy is, as mypyc names modules by their paths from there.
_BUILD = """
import sys
from mypyc.build import mypycify
from setuptools import setup

flags = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
extensions = mypycify([*flags, *sys.argv[1:]], opt_level="3", debug_level="0")
setup(ext_modules=extensions, packages=[], script_args=["--quiet", "build_ext", "--inplace"])
"""


def compile_runtime(place: Path) -> list[Path]:
    """Copy ``graph_runtime``, and what it imports, to ``place`` and compile it there.

    Returns:
        The extension modules, from ``place``.

    Raises:
        CalledProcessError: there is no C compiler, or a module does not compile.
    """
    for package in ("graphrt_base", "graph_runtime"):
        shutil.copytree(
            ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    subprocess.run([sys.executable, "-c", _BUILD, *COMPILED], cwd=place, check=True)
    shutil.rmtree(place / "build")
    return sorted(path.relative_to(place) for path in place.rglob("*.so"))


class CompiledRuntime(BuildHookInterface[Any]):
    """Puts the compiled modules into a wheel, but not into an editable one."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return NEEDS

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._place = Path(tempfile.mkdtemp(prefix="graphrt-"))
        for module in compile_runtime(self._place):
            build_data["force_include"][str(self._place / module)] = str(module)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            shutil.rmtree(self._place)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    compile_runtime(target)
