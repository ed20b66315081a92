"""Install graphrt into an empty environment, serve the demo, chat: the true thing, from PyPI.

``python -m tests.release.fresh_environment [--python PYTHON ...]`` builds the wheel, and for each
Python makes an environment, installs the wheel with its dependencies, serves the demo from an empty
directory, chats, and makes and serves a project. It prints seconds and sizes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.release.installation import Installation, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release.fresh_environment")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="default this one")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        wheel = build("wheel", Path(directory))
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
        for python in args.python:
            with tempfile.TemporaryDirectory() as place:
                try_wheel(wheel, python, Path(place))
    return 0


def try_wheel(wheel: Path, python: str, place: Path) -> None:
    """Install the wheel with one Python and use it; print what it took.

    Raises:
        AssertionError: something failed.
    """
    version = subprocess.check_output([python, "--version"], text=True).strip()
    begin = time.perf_counter()
    installation = Installation(place / "venv", python)
    installation.install(str(wheel))
    installed = time.perf_counter()
    empty = place / "empty"
    empty.mkdir()
    with installation.serving("demo", folder=empty) as server:
        serving = time.perf_counter()
        answer = server.chat("demo", "What is graphrt?")
    installation.graphrt("init", "mine", "--kind", "chat_endpoint", folder=empty)
    with installation.serving("config.json", folder=empty / "mine") as server:
        assert server.chat("mine", "good day") == "You said: good day"
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    print(
        f"{version}: installed in {installed - begin:.0f} s, {size / 1e6:.0f} MB; the demo is "
        f"served after {serving - installed:.1f} s and says: {answer.strip()!r}"
    )


if __name__ == "__main__":
    sys.exit(main())
