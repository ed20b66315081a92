"""The grammar process: ``python -m calculators.llm.structured.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import os
import sys

import msgspec

from calculators.llm.child.messages import LoadFailed, Stop
from calculators.llm.child.parent_connection import ParentConnection, ParentGone, die_with_parent
from calculators.llm.engine.load_failure import load_failure
from calculators.llm.prompt.process import limit_memory
from calculators.llm.structured.messages import Load, Ready, to_checker_decoder


def main(descriptor: int, parent: int) -> int:
    """Load, then answer until the parent says stop or is gone; the exit code."""
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        return _run(connection)
    except ParentGone:
        return 0


def _run(connection: ParentConnection) -> int:
    encode = msgspec.msgpack.encode
    prover = None
    while True:
        for frame in connection.receive(wait=True):
            message = to_checker_decoder.decode(frame)
            if isinstance(message, Stop):
                return 0
            if isinstance(message, Load):
                try:
                    # Imported here: the library takes long to load, and may be what is broken.
                    from calculators.llm.structured.prover import Prover

                    prover = Prover(message.model_path)
                except Exception as error:
                    connection.send(encode(LoadFailed(load_failure(message.model_path, error))))
                    return 1
                limit_memory(message.memory_limit)
                connection.send(encode(Ready()))
            else:
                assert prover is not None
                connection.send(encode(prover.check(message.form)))


if __name__ == "__main__":
    # Without the library's destructors: they take their time.
    os._exit(main(int(sys.argv[1]), int(sys.argv[2])))
