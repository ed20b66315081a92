"""Compare graphrt with MediaPipe on random graphs, and print each graph on which they differ."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.mediapipe_peer.case import PeerCase
from tests.mediapipe_peer.comparison import differences, wordings
from tests.mediapipe_peer.here import run_here
from tests.mediapipe_peer.known import known_reason
from tests.mediapipe_peer.peer import Peer
from tests.mediapipe_peer.random_cases import random_case
from tests.mediapipe_peer.shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mediapipe_peer", description=__doc__)
    parser.add_argument("--python", required=True, help="a Python with mediapipe 0.10.21")
    parser.add_argument("--graphs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph; the others follow")
    parser.add_argument("--no-shrink", action="store_true", help="print differing graphs as made")
    parser.add_argument("--wordings", action="store_true", help="show both sides' error messages")
    parser.add_argument("--stop-after", type=int, default=10, help="differing graphs")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    with Peer(arguments.python) as peer:
        for seed in range(arguments.seed, arguments.seed + arguments.graphs):
            case = random_case(seed)
            here, there = run_here(case), peer.run(case)
            found = differences(here, there)
            counts[_kind(there)] += 1
            if arguments.wordings:
                for ours, theirs in wordings(here, there):
                    print(f"--- seed {seed}\n  {ours!r}\n  {theirs!r}")
            if not found:
                counts["agree"] += 1
                continue
            reason = known_reason(case, found)
            if reason is not None:
                counts[f"differ for a known reason ({reason})"] += 1
                continue
            counts["differ"] += 1
            if not arguments.no_shrink:
                case = shrink(case, lambda smaller: _differs(peer, smaller))
            _print(seed, case, differences(run_here(case), peer.run(case)))
            if counts["differ"] >= arguments.stop_after:
                break
    print("; ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    return 1 if counts["differ"] else 0


def _kind(there: dict[str, object]) -> str:
    if "died" in there:
        return f"ended by MediaPipe ({there['died']})"
    if there["refused"]:
        return "refused by both"
    runs = there["runs"]
    assert isinstance(runs, list)
    failed = any(error for run in runs for error in run["errors"])
    return "with an error" if failed else "without error"


def _differs(peer: Peer, case: PeerCase) -> bool:
    found = differences(run_here(case), peer.run(case))
    return bool(found) and known_reason(case, found) is None


def _print(seed: int, case: PeerCase, found: list[str]) -> None:
    print(f"=== seed {seed}\n{case.text}")
    print(f"side packets: {case.side_packets}; add mode: {case.add_mode}; reruns: {case.reruns}")
    print(f"observed: {case.observed} (bounds: {case.observe_bounds})")
    for step in case.steps:
        print(" ", step)
    print("\n".join(found), flush=True)


if __name__ == "__main__":
    sys.exit(main())
