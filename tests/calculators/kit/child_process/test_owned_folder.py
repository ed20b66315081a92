"""Folders of processes that were killed are removed by the next one, those of others are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from calculators.kit.child_process.owned_folder import OwnedFolder
from tests.servers.cli.process import environment

_OWNER = """\
import sys
from calculators.kit.child_process.owned_folder import OwnedFolder
owned = OwnedFolder("test")
print(owned.path, flush=True)
sys.stdin.read()
"""


def test_a_folder_does_not_outlive_its_process_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", _OWNER],
        env={**environment(), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        assert left.parent == tmp_path
        own = OwnedFolder("test")
        assert left.is_dir(), "its process lives"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    other = OwnedFolder("other")
    assert left.is_dir(), "it is of another kind"
    second = OwnedFolder("test")
    assert not left.exists()
    assert os.stat(own.path).st_mode & 0o077 == 0
    for folder in (own, second, other, own):
        folder.remove()
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_have_its_lock_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.rename", full)
    with pytest.raises(OSError, match="No space left"):
        OwnedFolder("test")
    assert list(tmp_path.iterdir()) == []
