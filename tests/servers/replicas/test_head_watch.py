"""A process whose cluster is lost ends by itself; a front is told to stop first, then to hurry."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.cli.process import environment
from tests.support.patience import PATIENCE

#: Its cluster answers as the letters of the first word say, then as the last one: "." or "x", lost.
_WATCHED = """\
import signal, sys, threading
from servers.replicas import placement as head_watch
head_watch._POLL_SECONDS = 0.01
head_watch.DRAIN_SECONDS = head_watch.OWN_DRAIN_SECONDS = head_watch._ERROR_SECONDS = 0.2
states, away, is_front, stops = sys.argv[1:]
seen = []
def is_lost():
    seen.append(1)
    return states[min(len(seen), len(states)) - 1] == "x"
ended = threading.Event()
def on_signal(*_):
    print("told to stop", flush=True)
    if stops == "stops":
        ended.set()
signal.signal(signal.SIGTERM, on_signal)
watch = head_watch.HeadWatch(
    is_lost, lambda: print("abandoned", flush=True), "somewhere:1",
    is_own=False, is_front=is_front == "front", away=float(away),
)
with watch:
    while not ended.wait(0.01) and (states[-1] == "x" or len(seen) < 20):
        pass
if states[-1] == "x":
    threading.Event().wait()
print("served on", flush=True)
"""


@pytest.mark.parametrize(
    ("states", "away", "kind", "stops", "said", "code"),
    [
        ("x", "0", "front", "hangs", ["told to stop", "told to stop", "abandoned"], 1),
        ("x", "0", "front", "stops", ["told to stop", "abandoned"], 1),
        ("x", "0", "batch", "hangs", ["abandoned"], 1),
        ("..xxx..x.", "3600", "front", "hangs", ["served on"], 0),
    ],
)
def test_a_process_ends_when_its_cluster_is_away_for_long(
    states: str, away: str, kind: str, stops: str, said: list[str], code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, states, away, kind, stops],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.split("\n")[:-1] == said, done.stderr
    assert done.returncode == code
