"""Attacks on a server beside a normal client, and their effect on that client.

    python -m tests.reliability.hostile [--only NAME ...] [--list] [--slack 1]

Serves models of several tasks, and runs one attack after the other. Meanwhile a normal
client requests short chats, answers with a new schema and inferences, and a prober requests the
health fifty times a second. For each attack it prints the answers, the longest wait of the normal
client, the longest stall of the server's loop, and the memory of each process. The exit code is 1
if the client waited for more than a second (longer where an attack takes a process away), the loop
was blocked for more than 200 ms, or an answer was not allowed.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final, Self

from bench.machine import describe_machine
from tests.process.server_process import ServerProcess
from tests.reliability.hostile.attack import Attack, Send, Target
from tests.reliability.hostile.batch_attacks import BATCH_ATTACKS
from tests.reliability.hostile.fault_attacks import FAULT_ATTACKS
from tests.reliability.hostile.front_attacks import FRONT_ATTACKS
from tests.reliability.hostile.report import Round, table
from tests.reliability.hostile.request_attacks import REQUEST_ATTACKS
from tests.reliability.hostile.watch import Watch
from tests.reliability.site import make_site
from tests.support.processes import is_running

ATTACKS: Final = (*REQUEST_ATTACKS, *FRONT_ATTACKS, *BATCH_ATTACKS, *FAULT_ATTACKS)
#: After an attack nothing is left to do; whatever stalls until then was stalled by the attack.
_QUIET_SECONDS: Final = 1.0
#: Where memory counts, the server has longer to give it back.
_FREEING_SECONDS: Final = 8.0
#: Seconds of one attack, with all that it waits for.
_MOST_SECONDS: Final = 300.0


class Watched:
    """A server with its watchers while the context is entered."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        site = make_site(folder, "demo", "flowers", "shapes_vlm", "docs_ranker", "docs_embedder")
        words = (site, "--port", "auto", "--batch_dir", folder / "batches")
        self.server = ServerProcess(*words, "--max_body_size", "64M")
        try:
            self.server.__enter__()
            grpc = self.server.wait_for_log(r"serves grpc://\S+:(\d+)")[1]
            self.target = Target(self.server, folder, int(grpc))
            self.watch = Watch(self.server)
        except BaseException:
            self.server.__exit__(None, None, None)
            self._folder.cleanup()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.__exit__(None, None, None)
        self.server.__exit__(None, None, None)
        self._folder.cleanup()

    def endure(self, attack: Attack) -> tuple[Round, bool]:
        """Run one attack; return whether the server can take another one."""
        send = attack.prepare()
        begin = time.monotonic()
        if not self.watch.wait_until_well(begin):
            bad = self.watch.seen(begin, time.monotonic()).bad
            raise AssertionError(f"not served before anything is done: {dict(bad)}")
        begin = time.monotonic()
        try:
            answers = asyncio.run(_within(send, self.target))
        except (OSError, EOFError) as error:
            answers = Counter({type(error).__name__: 1})
        done = time.monotonic()
        if attack.ends_server:
            if is_running(self.server.pid):
                self.watch.wait_until_well(done)
            # Requests that the end cuts off do not count against the attack.
            until = time.monotonic()
            faults = self._end()
            seen = self.watch.seen(begin, until)
            return Round(attack, answers, done - begin, seen, faults), False
        is_well = self.watch.wait_until_well(done)
        time.sleep(_FREEING_SECONDS if attack.most_left < math.inf else _QUIET_SECONDS)
        faults = [] if is_well else ["the normal client is not served any more"]
        seen = self.watch.seen(begin, time.monotonic())
        return Round(attack, answers, done - begin, seen, faults), is_well

    def _end(self) -> list[str]:
        """Stop the server; return what was wrong with its stop."""
        children = self.server.children() if is_running(self.server.pid) else {}
        self.server.send_signal()
        try:
            code = self.server.wait()
        except subprocess.TimeoutExpired:
            return ["the server does not end"]
        faults = [] if code == 0 else [f"the server ended with exit code {code}"]
        faults += [f"{name} is left" for pid, name in children.items() if is_running(pid)]
        return faults


async def _within(send: Send, target: Target) -> Counter[str]:
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            return await send(target)
    except TimeoutError:
        return Counter({f"no end within {_MOST_SECONDS:g} s": 1})


def run(attacks: list[Attack], slack: float) -> list[Round]:
    """Run the attacks one after the other, on one server for as long as it serves."""
    rounds: list[Round] = []
    left = list(attacks)
    while left:
        with Watched() as watched:
            is_well = True
            while left and is_well:
                done, is_well = watched.endure(left.pop(0))
                rounds.append(done)
                print(*done.lines(slack), sep="\n", flush=True)
    return rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="attacks with this in their name")
    parser.add_argument("--list", action="store_true", help="the names of all attacks")
    parser.add_argument("--slack", type=float, default=1.0, help="multiplies the bounds")
    given = parser.parse_args()
    attacks = [
        attack
        for attack in ATTACKS
        if given.only is None or any(part in attack.name for part in given.only)
    ]
    if given.list or not attacks:
        print(*(attack.name for attack in (attacks or ATTACKS)), sep="\n")
        return 0 if given.list else 2
    rounds = run(attacks, given.slack)
    failed = [each.attack.name for each in rounds if each.problems(given.slack)]
    print(f"\n{describe_machine()}\n\n{table(rounds)}\n")
    print(f"the longest wait: {max(each.seen.longest_wait for each in rounds):.2f} s")
    print(f"the longest stall: {1e3 * max(each.seen.stall for each in rounds):.0f} ms")
    print(f"{len(failed)} of {len(rounds)} attacks were noticed or answered wrongly", *failed,
          sep="\n  ")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
