"""The prompt process: ``python -m calculators.llm.prompt.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import contextlib
import sys

import msgspec

from calculators.llm.child.messages import LoadFailed, Stop
from calculators.llm.child.parent_connection import ParentConnection, ParentGone, die_with_parent
from calculators.llm.engine.load_failure import load_failure
from calculators.llm.prompt.messages import Load, to_prompt_decoder


def main(descriptor: int, parent: int) -> int:
    """Load, then answer until the parent says stop or is gone; the exit code."""
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        return _run(connection)
    except ParentGone:
        return 0


def _run(connection: ParentConnection) -> int:
    encode = msgspec.msgpack.Encoder().encode
    maker = None
    while True:
        for frame in connection.receive(wait=True):
            message = to_prompt_decoder.decode(frame)
            if isinstance(message, Stop):
                return 0
            if isinstance(message, Load):
                try:
                    # Imported here: the library takes long to load, and may be what is broken.
                    from calculators.llm.prompt.maker import PromptMaker

                    maker = PromptMaker(message.model_path, message.max_tokens)
                    ready = maker.ready()
                except Exception as error:
                    connection.send(encode(LoadFailed(load_failure(message.model_path, error))))
                    return 1
                limit_memory(message.memory_limit)
                connection.send(encode(ready))
            else:
                assert maker is not None
                connection.send(encode(maker.answer(message)))


def limit_memory(further_bytes: int) -> None:
    """Let this process grow by so much and no more, where the system can do that."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + further_bytes
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
