"""The grammar process: ``python -m calculators.llm.grammar_process.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.kit.child_process.answering_process import Report, run
from calculators.llm.grammar_process.messages import (
    GrammarLoad,
    GrammarReady,
    GrammarRefused,
    to_checker_decoder,
)


def load(message: GrammarLoad, report: Report) -> tuple[GrammarReady, Callable[[Any], Any]]:
    """Load the tokenizer that grammars are made for."""
    # Imported here: the library takes long to load, and its import may fail.
    from calculators.llm.grammar_process.compiler import GrammarCompiler

    compiler = GrammarCompiler(message.model_path)
    # A collection of all loaded objects takes longer than a simple form may.
    gc.collect()
    gc.freeze()
    return GrammarReady(compiler.token_count), compiler.check


if __name__ == "__main__":
    # Without the library's destructors, which are slow.
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_checker_decoder.decode, GrammarLoad, load, GrammarRefused))
