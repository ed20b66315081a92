"""The other environment's process, as an object."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.mediapipe_peer.case import PeerCase

_SCRIPT = Path(__file__).with_name("there.py")


class Peer:
    """Runs cases on MediaPipe, one after the other. Use it as a context manager."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._read()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def run(self, case: PeerCase) -> dict[str, Any]:
        """Return MediaPipe's answer to a case."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case.message()) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the Python with MediaPipe ended; can it import mediapipe?")
        answer: dict[str, Any] = json.loads(line)
        return answer
