"""`GrammarCompiler`: makes grammars, and tries them on a pipeline of its own."""

from __future__ import annotations

import logging
import re
import signal
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

from calculators.kit.child_process.library_errors import lacks_memory, library_reason
from calculators.llm.engine.constrained_decoding import GrammarCache, open_form_tokenizer
from calculators.llm.grammar_process.messages import (
    GrammarAccepted,
    GrammarCheck,
    GrammarPostponed,
    GrammarRefused,
)
from calculators.llm.grammars.form_grammar import FormError, form_grammar
from calculators.llm.grammars.regular_expression import LAST

T = TypeVar("T")

#: Shortest setting of the timer, in seconds: about the resolution of systems.
_SHORTEST: Final = 0.001


class CutOff(BaseException):
    """The work took too long. A BaseException, so that the work does not handle it as its own."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of ``work``, limited to ``seconds`` of this thread's processor time.

    The time of other threads does not count.

    Raises:
        CutOff: the work took longer, and was stopped between two of its instructions.
    """
    is_running = True
    end = time.thread_time() + seconds

    def cut_off(number: int, frame: FrameType | None) -> None:
        if not is_running:
            return  # the work ended when the signal came
        left = end - time.thread_time()
        if left <= 0:
            raise CutOff
        # The timer counts the time of other threads too.
        signal.setitimer(signal.ITIMER_PROF, max(left, _SHORTEST))

    before = signal.signal(signal.SIGPROF, cut_off)
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            return work()
        finally:
            is_running = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
    finally:
        signal.signal(signal.SIGPROF, before)


log = logging.getLogger("graphrt.grammar")

_TOO_MUCH_MEMORY: Final = "it needs too much memory"
#: The server remembers outcomes and asks once for each form, so few grammars are kept.
_MOST_BYTES: Final = 64 * 1024**2
_MOST_GRAMMARS: Final = 16
#: The end of a class of nearly all letters. For each, the library looks at the whole vocabulary,
#: which takes as long as a character of the grammar for so many tokens (15 ms for 151,851).
_ANY_LETTER: Final = f"U{LAST:08x}]"
_PER_TOKENS: Final = 30
_NOISE: Final = re.compile(
    r"^(\[\d\d:\d\d:\d\d\]|Failed to create grammar from structural tag:)\s*"
)


class GrammarCompiler:
    """Answers one question at a time.

    Attributes:
        token_count: the size of the tokenizer's vocabulary.

    Raises (on construction):
        RuntimeError: openvino-genai cannot load the tokenizer, or it has no vocabulary.
    """

    def __init__(self, model_path: str) -> None:
        form_tokenizer = open_form_tokenizer(model_path)
        self.token_count = form_tokenizer.size
        if not self.token_count:
            raise RuntimeError("the tokenizer has no vocabulary that grammars could be made for")
        self._special = form_tokenizer.letters
        self._grammars = GrammarCache(
            form_tokenizer.tokenizer,
            self.token_count,
            max_bytes=_MOST_BYTES,
            max_count=_MOST_GRAMMARS,
        )

    def check(self, question: GrammarCheck) -> GrammarAccepted | GrammarRefused | GrammarPostponed:
        """Make the grammar of a form and compile it, within the limits of the question."""
        try:
            grammar, notices = within(
                question.seconds, lambda: form_grammar(question.form, self._special)
            )
        except CutOff:
            return GrammarPostponed(None)
        except FormError as error:
            return GrammarRefused(str(error), error.path)
        except MemoryError:
            return GrammarRefused(_TOO_MUCH_MEMORY)
        except RecursionError:
            return GrammarRefused("it is nested too deeply")
        except Exception as error:
            # The form is the only input, so it is the cause.
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("a form ended in %s at %s:%s", type(error).__name__, *where[:2])
            return GrammarRefused("no grammar can be made of it")
        size = len(grammar.text) + grammar.text.count(_ANY_LETTER) * self.token_count // _PER_TOKENS
        if question.longest is not None and size > question.longest:
            return GrammarPostponed(size)
        try:
            self._grammars.make_room()
            self._grammars.compile(grammar)
        except Exception as error:
            return GrammarRefused(_TOO_MUCH_MEMORY if lacks_memory(error) else _reason(error))
        return GrammarAccepted(grammar, notices)


def _reason(error: Exception) -> str:
    reason = library_reason(error)
    while found := _NOISE.match(reason):
        reason = reason[found.end() :]
    return reason
