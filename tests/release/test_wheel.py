"""The wheel and the sdist: built, installed away from the checkout, and used in empty directories.

The packages that graphrt needs are borrowed from the environment of the tests, so that no network
is needed. `python -m tests.release.fresh_environment` does the same with packages of PyPI.
"""

from __future__ import annotations

import re
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from servers.cli.arguments import KINDS
from tests.release.installation import Installation, build, run, unpacked
from tests.support.checkout import ROOT
from tests.support.markdown import PAGES, text_of

pytest.importorskip("hatchling", reason="hatchling is not installed: make setup")

PACKAGES: Final = ("graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers")
#: Folders and files of examples/ that the wheel has, and models.
EXAMPLES: Final = ("agents", "config.json", "graphs", "models/README.md", "new", "projects")
MODELS: Final = (
    *("models/counter", "models/demo", "models/demo_draft", "models/docs_embedder"),
    *("models/docs_ranker", "models/guard", "models/shapes", "models/shapes_vlm"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    made = Installation(tmp_path_factory.mktemp("installed") / "venv")
    made.install("--no-index", "--no-deps", str(wheel))
    made.borrow_packages()
    return made


def contents(wheel: Path) -> dict[str, str]:
    """Return the digest of each file in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def tracked(*folders: str) -> set[str]:
    """Return the files below folders of the checkout, without what git ignores."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("this is not a git checkout")
    return {name for name in listing.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_wheel_has_the_packages_and_examples_and_nothing_else(wheel: Path) -> None:
    examples = tracked(*(f"examples/{name}" for name in (*EXAMPLES, *MODELS)))
    expected = tracked(*PACKAGES) | {f"graphrt_{name}" for name in examples}
    found = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert found == expected


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", tmp_path)
    source = unpacked(sdist, tmp_path / "source")
    assert contents(build("wheel", tmp_path / "again", source)) == contents(wheel)


def test_the_commands_are_those_of_the_wheel(installation: Installation, tmp_path: Path) -> None:
    version = installation.graphrt("--version", folder=tmp_path)
    assert version.startswith("graphrt 0.")
    program = "import servers; print(servers.__file__)"
    place = run([installation.python, "-c", program], tmp_path)
    assert place.startswith(str(installation.directory))


def test_every_example_that_the_documents_name_is_in_the_wheel(wheel: Path) -> None:
    in_wheel = contents(wheel)
    for page in PAGES:
        for path in re.findall(r"(?<![\w./])examples/[\w./]+\w", text_of(page)):
            if "_making" in path or "training" in path:
                continue  # modules of a clone, which make the models
            assert any(name.startswith(f"graphrt_{path}") for name in in_wheel), (page, path)


def test_examples_are_found_from_an_empty_directory(
    installation: Installation, tmp_path: Path
) -> None:
    words = ["examples/config.json", "examples/graphs/guard", "demo"]
    guard = "--calculators=examples/graphs/guard/guard.py"
    found = installation.graphrt("validate", *words, guard, folder=tmp_path)
    assert found.count(": ok (") == 3
    installation.graphrt("examples", "all", folder=tmp_path)
    assert "examples/config.json: ok" in installation.graphrt(
        "validate", "examples/config.json", folder=tmp_path
    )
    with installation.serving("examples/graphs/guard", guard, folder=tmp_path) as server:
        assert server.chat("guard", "What is graphrt?").strip()


def test_the_demo_is_served_from_an_empty_directory(
    installation: Installation, tmp_path: Path
) -> None:
    with installation.serving("demo", folder=tmp_path) as server:
        assert server.chat("demo", "What is graphrt?").strip()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_projects_are_made_and_valid(kind: str, installation: Installation, tmp_path: Path) -> None:
    installation.graphrt("init", "mine", "--kind", kind, folder=tmp_path)
    found = installation.graphrt("validate", "config.json", folder=tmp_path / "mine")
    assert found.startswith("config.json: ok (1 graph")


def test_a_project_is_served(installation: Installation, tmp_path: Path) -> None:
    installation.graphrt("init", "mine", "--kind", "chat_endpoint", folder=tmp_path)
    with installation.serving("config.json", folder=tmp_path / "mine") as server:
        assert server.chat("mine", "good day") == "You said: good day"
