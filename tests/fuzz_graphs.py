"""Checks of random graphs for a given time: ``python -m tests.fuzz_graphs --seconds N``.

Each round has another seed, so every run of this command checks other graphs. A failing example is
shrunk and printed; ``--seed`` of that round finds it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from tests.graph_runtime import test_random_graphs as checks

ROUND = settings(
    max_examples=100, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
#: Seconds without a finished round after which the process prints where it hangs, and ends.
PATIENCE = 900


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_graphs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--only", choices=[name for name, _, _ in checks.CHECKS])
    arguments = parser.parse_args()
    ends = time.monotonic() + arguments.seconds
    number = arguments.seed
    while time.monotonic() < ends:
        for name, check, strategies in checks.CHECKS:
            if arguments.only in (None, name):
                faulthandler.dump_traceback_later(PATIENCE, exit=True)
                print(f"{name}, seed {number}", flush=True)
                _round(check, strategies, number)
        number += 1
    faulthandler.cancel_dump_traceback_later()
    return 0


def _round(check: Callable[..., None], strategies: dict[str, Any], number: int) -> None:
    def fresh(**arguments: Any) -> None:
        check(**arguments)

    seed(number)(ROUND(given(**strategies)(fresh)))()


if __name__ == "__main__":
    sys.exit(main())
