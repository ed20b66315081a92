"""The job with the newest versions tries each Python that the metadata names."""

from __future__ import annotations

import os
import stat
import sys

import pytest

from tests.release import newest_versions
from tests.support.checkout import ROOT


def test_each_python_of_the_classifiers_is_tried_or_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = newest_versions.named_versions()
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert own in named
    found = newest_versions.find_python(own)
    assert found is not None
    monkeypatch.setattr(
        newest_versions, "find_python", lambda version: found if version == own else None
    )
    assert [*newest_versions.found_pythons()] == [found]
    missing = [version for version in named if version != own]
    lines = [f"Python {version}: skipped, this machine has none" for version in missing]
    assert capsys.readouterr().out.splitlines() == lines


def test_ci_has_the_job() -> None:
    for name in ("run", "newest"):
        script = ROOT / ".ci" / name
        assert "newest" in script.read_text("utf-8").split("set -euo pipefail")[1]
        assert os.stat(script).st_mode & stat.S_IXUSR
