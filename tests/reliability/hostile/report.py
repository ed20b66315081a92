"""Report of the attacks, in words and as a table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from tests.reliability.hostile.attack import MOST_STALL, Attack
from tests.reliability.hostile.watch import Memory, Seen

_COLUMNS: Final = ("attack", "answers", "longest wait, s", "longest stall, ms", "memory, MiB")


@dataclass(frozen=True)
class Round:
    """One attack and its outcome. ``faults``: problems that the watchers cannot see."""

    attack: Attack
    answers: Counter[str]
    seconds: float
    seen: Seen
    faults: list[str] = field(default_factory=list)

    def problems(self, slack: float) -> list[str]:
        """Return the violations; ``slack`` multiplies the bounds, for slow machines."""
        attack, seen = self.attack, self.seen
        found = list(self.faults)
        found += [
            f"answered {answer}, {count} times"
            for answer, count in self.answers.items()
            if answer not in attack.answers
        ]
        found += [
            f"the normal client got {kind} {status}, {count} times"
            for (kind, status), count in seen.bad.items()
            if status not in attack.normal and not (attack.ends_server and status == 0)
        ]
        most = slack * attack.most_wait
        found += [
            f"{kind} took {seconds:.1f} s, at most {most:g}"
            for kind, seconds in seen.waits.items()
            if seconds > most
        ]
        if self.seconds > slack * attack.most_seconds:
            found.append(f"it took {self.seconds:.0f} s, at most {slack * attack.most_seconds:g}")
        if seen.stall > slack * MOST_STALL:
            most_ms = 1e3 * slack * MOST_STALL
            found.append(f"the loop stood still for {1e3 * seen.stall:.0f} ms, at most {most_ms:g}")
        server = seen.memory.get("server", Memory(0.0, 0.0, 0.0))
        for what, size, bound in (
            ("grew by", server.peak - server.before, attack.most_growth),
            ("kept", server.after - server.before, attack.most_left),
        ):
            if size > slack * bound:
                found.append(f"the server {what} {size:.0f} MiB, at most {slack * bound:g}")
        return found

    def lines(self, slack: float) -> list[str]:
        """Return lines for a person who watches the attacks."""
        waits = ", ".join(f"{kind} {wait:.2f}" for kind, wait in self.seen.waits.items())
        memory = ", ".join(f"{kind} {sizes}" for kind, sizes in self.seen.memory.items())
        problems = self.problems(slack)
        return [
            f"{'FAILS' if problems else 'holds':6} {self.attack.name}: {self._answers()}"
            f" in {self.seconds:.1f} s",
            f"       longest waits, s: {waits}; longest stall: {1e3 * self.seen.stall:.0f} ms",
            f"       MiB before / most / after: {memory}",
            *(f"       - {problem}" for problem in problems),
        ]

    def cells(self) -> list[str]:
        """Return a row for `table`."""
        memory = self.seen.memory.values()
        before = sum(size.before for size in memory)
        after = sum(size.after for size in memory)
        peak = max((size.peak - size.before for size in memory), default=0.0)
        return [
            self.attack.name,
            self._answers(),
            f"{self.seen.longest_wait:.2f}",
            f"{1e3 * self.seen.stall:.0f}",
            f"{before:.0f}, +{peak:.0f}, {after:.0f}",
        ]

    def _answers(self) -> str:
        return ", ".join(f"{count} x {answer}" for answer, count in sorted(self.answers.items()))


def table(rounds: list[Round]) -> str:
    """Return Markdown. Memory: of all processes before and after, and the largest growth of one."""
    rows = [list(_COLUMNS), ["---"] * len(_COLUMNS), *(each.cells() for each in rounds)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
