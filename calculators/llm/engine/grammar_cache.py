"""`GrammarCache`: compiled grammars, shared by a pipeline and the probe that compiles them.

The library keeps compiled grammars with the tokenizer and the size of the vocabulary, and never
forgets one. A pipeline of another vocabulary size on the same tokenizer makes it start anew, which
drops all grammars at once. The memory of a process that gets new grammars is therefore a sawtooth,
whose height is bounded here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import openvino

from calculators.kit.memory import return_free_memory
from calculators.llm.engine.compile_probe import CompileProbe
from calculators.llm.grammars.grammar import Grammar

#: Growth of the process that compiled grammars may cause before all are dropped, and their number.
#: A grammar of three properties takes 0.7 MiB for 2,500 tokens and 6 MiB for 49,000.
MAX_BYTES: Final = 512 * 1024**2
MAX_COUNT: Final = 64


class GrammarCache:
    """The grammars that a tokenizer's pipelines need not compile again.

    `has` and `make_room` are called by the thread that steps, `compile` by one other thread.
    """

    def __init__(
        self,
        tokenizer: Any,
        vocabulary_size: int,
        *,
        max_bytes: int = MAX_BYTES,
        max_count: int = MAX_COUNT,
    ) -> None:
        """Make an empty cache.

        Args:
            tokenizer: the pipeline's, of openvino-genai.
            vocabulary_size: exactly the size of the pipeline's logits. With any other size the
                pipeline and the probe would drop each other's grammars.
            max_bytes: growth of the process after which `make_room` drops all grammars.
            max_count: the number of grammars at which it does so.
        """
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._compiling = CompileProbe(tokenizer, vocabulary_size)
        # Made once: that takes a fifth of a second, and steps wait while it is used.
        self._emptying = CompileProbe(tokenizer, vocabulary_size + 1)
        self._compiled: set[Grammar] = set()
        self._bytes = 0
        self._has_freed = False

    def has(self, grammar: Grammar) -> bool:
        """True if the grammar is compiled."""
        return grammar in self._compiled

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar; in any thread, but one at a time.

        Raises:
            RuntimeError: the library refuses the grammar.
        """
        if self._has_freed:
            # Else the C library keeps it, and what fills it again would not be counted.
            self._has_freed = False
            return_free_memory()
        before = _resident_bytes()
        self._compiling.compile(grammar)
        self._bytes += max(0, _resident_bytes() - before)
        self._compiled.add(grammar)

    def make_room(self) -> None:
        """Drop all grammars if there are too many. Called by the stepping thread, between steps."""
        if self._bytes <= self._max_bytes and len(self._compiled) < self._max_count:
            return
        self._compiled.clear()
        self._bytes = 0
        self._emptying.run()
        self._compiling.run()
        self._has_freed = True


def open_grammar_cache(
    model_path: str, tokenizer: Any, config: Any, token_count: int
) -> GrammarCache:
    """Open the cache of a model.

    Args:
        model_path: a directory, or a GGUF file.
        tokenizer: the pipeline's, of openvino-genai.
        config: the model's ``GenerationConfig``.
        token_count: the number of the tokenizer's tokens.

    Raises:
        RuntimeError: the size of the vocabulary, or the end token, is unknown.
    """
    size = vocabulary_size(model_path, token_count)
    if size is None or not config.stop_token_ids:
        raise RuntimeError("the model's files do not give its vocabulary or its end token")
    return GrammarCache(tokenizer, size)


def vocabulary_size(model_path: str, token_count: int) -> int | None:
    """Return the number of logits per token; None where the model's files do not say."""
    path = Path(model_path)
    if path.is_file():
        # A model in a GGUF file has one logit per token of the vocabulary.
        return token_count or None
    for name in ("openvino_model.xml", "openvino_language_model.xml"):
        if (path / name).is_file():
            shape = openvino.Core().read_model(path / name).output("logits").partial_shape
            return int(shape[-1].get_length()) if shape[-1].is_static else None
    return None


def _resident_bytes() -> int:
    """Return the resident size of this process; 0 where the system does not report it."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
