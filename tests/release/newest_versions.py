"""The wheel with the newest versions of its packages, on each Python that it names.

``python -m tests.release.newest_versions [--python PYTHON ...] [--last] [PYTEST WORDS]`` builds the
wheel. On each Python of the classifiers that this machine has, or on the last one, it makes an
environment, installs the wheel as pip does today, and then

- runs tests that read types of authors and pass arrays, with warnings as errors, from a copy of
  ``tests/`` beside which there is no checkout; or the given words, such as ``--tier quick``;
- makes each kind of project of ``graphrt init``, and runs the project's own tests;
- indexes the documents and serves `examples/graphs/retrieval`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from servers.cli.arguments import KINDS
from tests.release.installation import Installation, build, run
from tests.support.checkout import ROOT

#: Extras whose packages graphs of arrays, pictures and documents need.
EXTRAS: Final = "hub,images,retrieval,vision"
OF_TESTS: Final = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "typing-extensions")
TESTS: Final = (
    "tests/graph_runtime/test_annotations.py",
    "tests/graph_runtime/test_function_calculators.py",
    "tests/graph_runtime/test_packet_type.py",
    "tests/servers/serving/graph_inference/test_typed_streams.py",
)
#: Packages whose versions are printed.
SHOWN: Final = ("numpy", "openvino", "protobuf", "grpcio", "aiohttp", "pillow")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.release.newest_versions")
    parser.add_argument("--python", nargs="+", help="default: those of the classifiers")
    parser.add_argument("--last", action="store_true", help="only the last of them")
    args, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as directory:
        wheel = build("wheel", Path(directory))
        pythons = args.python or [*found_pythons()]
        for python in pythons[-1:] if args.last else pythons:
            with tempfile.TemporaryDirectory() as place:
                try_newest(wheel, python, Path(place), words or TESTS)
    return 0


def found_pythons() -> Iterator[str]:
    """Yield the Pythons of the classifiers that this machine has; say which it has not."""
    for version in named_versions():
        python = find_python(version)
        if python is None:
            print(f"Python {version}: skipped, this machine has none", flush=True)
        else:
            yield python


def named_versions() -> list[str]:
    """Return the versions of Python that the classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.M)


def find_python(version: str) -> str | None:
    """Return a Python of this version that runs: on PATH, or beside the one that runs this, where
    pyenv and uv keep several."""
    beside = Path(sys.base_prefix).resolve().parent.glob(f"*{version}*/bin/python{version}")
    for python in (shutil.which(f"python{version}"), *map(str, sorted(beside))):
        if python is None:
            continue
        code = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
        words = [python, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return python
    return None


def try_newest(wheel: Path, python: str, place: Path, words: Sequence[str]) -> None:
    """Install the wheel with the newest packages, and use it; print versions and seconds.

    Raises:
        AssertionError: something failed.
    """
    begin = time.perf_counter()
    installation = Installation(place / "venv", python)
    installation.install("--no-compile", f"{wheel}[{EXTRAS}]", *OF_TESTS)
    code = "import importlib.metadata as m, platform; print('Python', platform.python_version(), "
    code += ", ".join(f"'{name}', m.version('{name}')" for name in SHOWN) + ")"
    versions = run([installation.python, "-c", code], place).strip()
    installed = time.perf_counter()
    print(f"{versions}: installed in {installed - begin:.0f} s", flush=True)
    _run_tests(installation, place / "tests", words)
    for kind in KINDS:
        _try_project(installation, place, kind)
    _try_retrieval(installation, place)
    print(f"{versions}: tried in {time.perf_counter() - installed:.0f} s", flush=True)


def _run_tests(installation: Installation, folder: Path, words: Sequence[str]) -> None:
    """Run tests in a copy of `tests/`, whose packages are those of the wheel."""
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in ("examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    pytest = [installation.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    print(run([*pytest, *words], folder).rstrip().rpartition("\n")[2], flush=True)


def _try_project(installation: Installation, place: Path, kind: str) -> None:
    """Make a project, check it with warnings as errors, and run its tests."""
    installation.graphrt("init", kind, "--kind", kind, folder=place)
    project = place / kind
    strict = [installation.python, "-W", "error"]
    run([*strict, "-m", "servers.cli", "validate", "config.json"], project)
    if list(project.glob("test_*.py")):
        run([*strict, "-m", "pytest", "-q", "-p", "no:cacheprovider"], project)


def _try_retrieval(installation: Installation, place: Path) -> None:
    """Index the documents as the example says, serve it, and ask it."""
    example = place / "retrieval_example"
    shutil.copytree(ROOT / "examples/graphs/retrieval", example)
    graph = example / "graph.pbtxt"
    models = ROOT / "examples" / "models"
    graph.write_text(graph.read_text("utf-8").replace("../../models", str(models)), "utf-8")
    embedder = str(models / "docs_embedder")
    documents = str(ROOT / "docs" / "tutorials")
    index = str(example / "docs.db")
    installation.graphrt("index", documents, "--model", embedder, "--out", index, folder=place)
    with installation.serving(str(example), folder=place) as server:
        assert server.chat("retrieval_example", "How do I add a calculator?")


if __name__ == "__main__":
    sys.exit(main())
