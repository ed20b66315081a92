"""A supervised scripted child, and the events that the supervisor reported."""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.kit.child_process.supervisor import STALL_SECONDS, SupervisedProcess
from tests.calculators.kit.child_process.scripted_child import MODULE, Load, Ready, Say, from_child
from tests.support.conditions import until


class Supervised(SupervisedProcess[Ready]):
    """Client of a supervised child; ``owed`` answers are missing."""

    def __init__(
        self,
        script: str = "ready",
        *,
        file: str = "",
        hang_seconds: float = 60,
        stall_seconds: float = STALL_SECONDS,
        module: str = "",
        is_shared: bool = False,
    ) -> None:
        self.answers: list[Any] = []
        self.downs: list[str] = []
        self.failed_restarts: list[str] = []
        self.backs = 0
        self.owed = 0
        super().__init__(
            name='child of "test"',
            module=module or MODULE,
            load=Load(script, file),
            decode=from_child.decode,
            ready=Ready,
            hang_seconds=hang_seconds,
            stall_seconds=stall_seconds,
            is_shared=is_shared,
        )

    @property
    def is_busy(self) -> bool:
        return self.owed > 0

    def take(self, message: Any) -> None:
        self.answers.append(message)
        self.owed -= 1

    def down(self, reason: str) -> None:
        self.downs.append(reason)

    def back(self) -> None:
        self.backs += 1

    def cannot_restart(self, reason: str) -> None:
        self.failed_restarts.append(reason)

    def say(self, text: str) -> None:
        if not self.owed:
            self.expect_answer()
        self.owed += 1
        self.send(msgspec.msgpack.encode(Say(text)))

    async def ask(self, text: str) -> str:
        """Send one question; return its answer."""
        self.owed = 0
        before = len(self.answers)
        self.say(text)
        await until(lambda: len(self.answers) > before)
        answer: str = self.answers[before].text
        return answer
