"""A process that starts a supervised child, prints its id, and waits to be killed."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from tests.calculators.kit.child_process.scripted_child import Say
from tests.calculators.kit.child_process.supervised import Supervised


async def main(script: str) -> None:
    child = Supervised()
    await child.start()
    child.send(msgspec.msgpack.encode(Say(script)))
    print(child.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
