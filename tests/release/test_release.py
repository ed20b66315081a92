"""`make release`, on a clone: what it refuses, and the commit, tag and artefacts that it makes.

Without the list of components, which is made by a tool of PyPI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from deploy.release import versioned_deployment, versioned_project
from tests.support.checkout import ROOT

pytest.importorskip("hatchling", reason="hatchling is not installed: make setup")

CHANGELOG = """\
# Changelog

## [Unreleased]

### Added
- Something new.

## [0.1.0] - 2026-01-01

### Added
- The first version.
"""


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.check_output(["git", *author, *words], cwd=folder, text=True).strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A small repository that is released as this one is: its packages have a file each."""
    project = tmp_path / "project"
    for package in ("graphrt", "graphrt_base", "protos", "graph_runtime", "calculators", "servers"):
        (project / package).mkdir(parents=True)
        (project / package / "__init__.py").write_text("")
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for line in text.splitlines():
        if line.endswith('"') and line.startswith('"examples/') and " = " in line:
            folder = project / line.split('"')[1]
            folder.mkdir(parents=True)
            (folder / "file").write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE", "requirements.lock", ".gitignore"):
        (project / name).write_bytes((ROOT / name).read_bytes())
    (project / "CHANGELOG.md").write_text(CHANGELOG)
    git(project, "init", "--quiet", "--initial-branch", "main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Begin")
    return project


def release(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    names = {f"GIT_{role}_{part}" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **dict.fromkeys(names, "a@example.org")}
    return subprocess.run(
        [sys.executable, "-m", "deploy.release", "--without_sbom", "--pure_only", *words],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def refusal(project: Path, *words: str) -> str:
    """Return the reason of a refusal that leaves the repository as it was."""
    before = git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")
    done = release(project, *words)
    assert done.returncode == 1
    assert (git(project, "status", "--porcelain"), git(project, "rev-parse", "HEAD")) == before
    return done.stderr


def test_a_release_is_a_commit_a_tag_and_artefacts(clone: Path) -> None:
    done = release(clone, "0.2.0")
    assert (done.returncode, done.stderr) == (0, "")
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "log", "--format=%s", "-1") == "Release 0.2.0"
    assert git(clone, "rev-parse", "v0.2.0^{commit}") == git(clone, "rev-parse", "HEAD")
    changelog = (clone / "CHANGELOG.md").read_text()
    before, _, after = changelog.partition("\n## [0.2.0] - 2")
    assert before.endswith("## [Unreleased]\n")
    assert "- Something new." in after
    wheel, sdist = clone / "dist" / "graphrt-0.2.0-py3-none-any.whl", "graphrt-0.2.0.tar.gz"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read("graphrt-0.2.0.dist-info/METADATA").decode()
    assert "\nVersion: 0.2.0\n" in metadata
    sums = subprocess.check_output(["sha256sum", "-c", "SHA256SUMS"], cwd=clone / "dist", text=True)
    assert sums == f"{wheel.name}: OK\n{sdist}: OK\n"


def test_a_second_release_needs_a_new_version_and_new_entries(clone: Path) -> None:
    assert release(clone, "0.2.0").returncode == 0
    assert "the tag v0.2.0 exists" in refusal(clone, "0.2.0")
    assert "0.1.9 is before 0.2.0, which has been released" in refusal(clone, "0.1.9")
    assert "no entry under" in refusal(clone, "0.3.0")


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.02.3", "1.2.3rc1"])
def test_what_is_no_version_is_refused(version: str, clone: Path) -> None:
    assert f'"{version}" is not a version' in refusal(clone, version, "--check")


def test_uncommitted_changes_are_refused(clone: Path) -> None:
    (clone / "new.txt").write_text("")
    assert "not committed:\n?? new.txt" in refusal(clone, "0.2.0")


def test_another_branch_is_refused(clone: Path) -> None:
    git(clone, "switch", "--quiet", "--create", "mine")
    assert 'the branch is "mine"' in refusal(clone, "0.2.0")


def test_a_build_that_fails_leaves_the_checkout_as_it_was(clone: Path) -> None:
    git(clone, "rm", "--quiet", "README.md")
    git(clone, "commit", "--quiet", "--message", "Without the page that the metadata need")
    assert "README.md" in refusal(clone, "0.2.0")
    assert (clone / "CHANGELOG.md").read_text() == CHANGELOG
    assert git(clone, "tag") == ""


def test_the_version_of_this_checkout_can_be_set() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert '\nversion = "9.9.9"\n' in versioned_project(project, "9.9.9")
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_chart_and_manifests_get_the_version() -> None:
    paths = [
        path
        for folder in ("helm", "kubernetes", "kserve", "ray")
        for path in (ROOT / "deploy" / folder).rglob("*.yaml")
    ]
    changed = [versioned_deployment(path.read_text("utf-8"), "9.8.7") for path in paths]
    assert sum(text.count("9.8.7") for text in changed) >= 15
    assert not any(
        re.search(r"(?i)(image: graphrt|version): ?\"?0\.1\.0", text) for text in changed
    )
