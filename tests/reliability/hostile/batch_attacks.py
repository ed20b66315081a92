"""Attacks on batches: lines, files and ends of the worker that must concern one batch only."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.process.http_client import HELLO
from tests.reliability.hostile.attack import Attack, Send, Target, act, until
from tests.support.broken_files import INSTEAD

_CHAT: Final = "/v1/chat/completions"
_WORKER: Final = "servers.cli.batch_worker"
_FINISHED: Final = ("completed", "failed", "expired", "cancelled")
#: The worker starts an engine of its own, at the lowest priority.
_MOST_SECONDS: Final = 150.0
_DEEP: Final = "[" * 1000 + "]" * 1000
_LINES: Final = (
    f'{{"custom_id": "a", "url": "{_CHAT}", "body": {{"messages": {_DEEP}}}}}',
    f'{{"custom_id": "a", "url": "{_CHAT}", "body": {{}}, "more": {_DEEP}}}',
    f'{{"custom_id": {_DEEP}, "url": "{_CHAT}", "body": {{}}}}',
    f'{{"custom_id": "\\ud800", "url": "{_CHAT}", "body": {{}}}}',
    f'{{"custom_id": "a", "url": "{_CHAT}", "body": {{"model": 1e99999}}}}',
    "[" * 100_000,
    "\x00",
)


def _sound(number: int) -> str:
    body = {"model": "demo", "messages": HELLO, "max_tokens": 2}
    return json.dumps({"custom_id": f"sound {number}", "url": _CHAT, "body": body})


class _Batches:
    """Makes batches, and waits for their ends."""

    def __init__(self, session: aiohttp.ClientSession, target: Target) -> None:
        self._session = session
        self._url = f"http://127.0.0.1:{target.port}/v1"
        self._made: list[tuple[str, str]] = []

    async def make(
        self, what: str, lines: Sequence[str], damage: Callable[[str], None] = lambda _: None
    ) -> None:
        form = aiohttp.FormData({"purpose": "batch"})
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")
        form.add_field("file", content, filename="in.jsonl")
        file = await self._ask("POST", "files", data=form)
        damage(file["id"])
        asked = {
            "input_file_id": file["id"],
            "endpoint": _CHAT,
            "completion_window": "24h",
        }
        self._made.append((what, (await self._ask("POST", "batches", json=asked))["id"]))

    async def ends(self) -> Counter[str]:
        """Return how the batches ended: kind, status, and requests that were answered well."""
        found: Counter[str] = Counter()
        for what, batch_id in self._made:
            while True:
                batch = await self._ask("GET", f"batches/{batch_id}")
                if batch["status"] in _FINISHED:
                    break
                await asyncio.sleep(0.25)
            found[f"{what} {batch['status']} {batch['request_counts']['completed']}"] += 1
        return found

    async def _ask(self, method: str, path: str, **members: Any) -> dict[str, Any]:
        async with self._session.request(method, f"{self._url}/{path}", **members) as answer:
            found: dict[str, Any] = await answer.json()
            return found


def _attack(make: Callable[[_Batches, Target], Any]) -> Callable[[], Send]:
    async def send(target: Target) -> Counter[str]:
        async with aiohttp.ClientSession() as session:
            batches = _Batches(session, target)
            await make(batches, target)
            await batches.make("sound", [_sound(number) for number in range(3)])
            return await batches.ends()

    return act(send)


async def _broken_lines(batches: _Batches, target: Target) -> None:
    for line in _LINES:
        await batches.make("broken", [line, _sound(0)])


async def _broken_files(batches: _Batches, target: Target) -> None:
    def breaking(damage: Callable[[Path], None]) -> Callable[[str], None]:
        return lambda file_id: damage(target.batches / "files" / file_id)

    for name, damage in INSTEAD.items():
        if name != "forbidden":  # to root nothing is
            await batches.make("broken", [_sound(0)], breaking(damage))


async def _killed_worker(batches: _Batches, target: Target) -> None:
    await batches.make("other", [_sound(number) for number in range(40)])
    killed: set[int] = set()

    def workers() -> set[int]:
        children = target.server.children()
        return {pid for pid, name in children.items() if name == _WORKER} - killed

    for _ in range(2):
        await until(workers)
        await asyncio.sleep(1.0)
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)


BATCH_ATTACKS: Final = (
    Attack(
        "batches with broken lines",
        _attack(_broken_lines),
        frozenset({"broken completed 1", "sound completed 3"}),
        most_seconds=_MOST_SECONDS,
    ),
    Attack(
        "batches whose files are pipes, links and directories",
        _attack(_broken_files),
        frozenset({"broken failed 0", "sound completed 3"}),
        most_seconds=_MOST_SECONDS,
    ),
    Attack(
        "the worker of batches is killed",
        _attack(_killed_worker),
        frozenset({"other completed 40", "sound completed 3"}),
        most_seconds=_MOST_SECONDS,
    ),
)
