"""The grammar process: ``python -m calculators.llm.grammar_process.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.child_process.answering_process import run
from calculators.llm.grammar_process.messages import Load, Ready, Refused, to_checker_decoder


def load(message: Load) -> tuple[Ready, Callable[[Any], Any]]:
    """Load the tokenizer that grammars are made for."""
    # Imported here: the library takes long to load, and may be what is broken.
    from calculators.llm.grammar_process.compiler import GrammarCompiler

    prover = GrammarCompiler(message.model_path)
    # What is loaded stays: a simple form has less time than a look at all of it takes.
    gc.collect()
    gc.freeze()
    return Ready(), prover.check


if __name__ == "__main__":
    # Without the library's destructors: they take their time.
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_checker_decoder.decode, Load, load, Refused))
