"""`GrammarCache`: compiled grammars, shared by the pipeline and the one that compiles them.

The library keeps them with the tokenizer, together with the size of the vocabulary, for ever. A
pipeline of another size with the same tokenizer makes it start anew: so they are thrown away.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import openvino

from calculators.llm.engine.compile_probe import CompileProbe, token_count
from calculators.llm.grammars.grammar import Grammar

#: By how much the process may grow with grammars before all are thrown away, and how many they
#: may be where the system does not tell how large a process is.
MAX_BYTES: Final = 512 * 1024**2
MAX_COUNT: Final = 1000


class GrammarCache:
    """What has been compiled. It is looked up in one thread, and added to in another."""

    def __init__(
        self,
        tokenizer: Any,
        vocabulary_size: int,
        *,
        max_bytes: int | None = None,
        max_count: int | None = None,
    ) -> None:
        """``vocabulary_size``: of the logits; exactly, or both would throw away each other's."""
        self._tokenizer = tokenizer
        self._size = vocabulary_size
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._compiling = CompileProbe(tokenizer, vocabulary_size)
        self._compiled: set[Grammar] = set()
        self._bytes = 0

    def has(self, grammar: Grammar) -> bool:
        return grammar in self._compiled

    def compile(self, grammar: Grammar) -> None:
        """Compile it; in any thread, but not twice at the same time.

        Raises:
            RuntimeError: the library does not take it.
        """
        before = _resident_bytes()
        self._compiling.compile(grammar)
        self._bytes += max(0, _resident_bytes() - before)
        self._compiled.add(grammar)

    def make_room(self) -> bool:
        """Throw all away if they are too many; only in the thread that steps, between steps."""
        most_bytes = MAX_BYTES if self._max_bytes is None else self._max_bytes
        most = MAX_COUNT if self._max_count is None else self._max_count
        if self._bytes <= most_bytes and len(self._compiled) < most:
            return False
        self._compiled.clear()
        self._bytes = 0
        CompileProbe(self._tokenizer, self._size + 1).run()
        self._compiling.run()
        return True


def open_grammar_cache(model_path: str, tokenizer: Any, config: Any) -> GrammarCache:
    """For a model with this tokenizer of the library's, and this generation config.

    Raises:
        RuntimeError: the model does not tell what is needed.
    """
    size = vocabulary_size(model_path, tokenizer)
    if size is None or not config.stop_token_ids:
        raise RuntimeError("this model does not tell its vocabulary, or how it ends")
    return GrammarCache(tokenizer, size)


def vocabulary_size(model_path: str, tokenizer: Any) -> int | None:
    """How many logits a model has for each token; None: it cannot be told."""
    path = Path(model_path)
    if path.is_file():
        # In a GGUF file the logits are as many as the tokens.
        return token_count(tokenizer) or None
    for name in ("openvino_model.xml", "openvino_language_model.xml"):
        if (path / name).is_file():
            shape = openvino.Core().read_model(path / name).output("logits").partial_shape
            return int(shape[-1].get_length()) if shape[-1].is_static else None
    return None


def _resident_bytes() -> int:
    """Of this process; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
