"""`GrammarCompiler`: makes grammars, and tries them on a pipeline of its own."""

from __future__ import annotations

import logging
import re
import traceback
from typing import Final

import openvino_genai as genai

from calculators.child_process.library_errors import library_reason
from calculators.llm.engine.compile_probe import token_count
from calculators.llm.engine.grammar_cache import GrammarCache
from calculators.llm.grammar_process.cpu_limit import CutOff, within
from calculators.llm.grammar_process.messages import Accepted, Check, Postponed, Refused
from calculators.llm.grammars.form_grammar import FormError, grammar_of

log = logging.getLogger("graphrt.grammar")

_TOO_MUCH_MEMORY: Final = "it needs too much memory"
#: The server remembers outcomes and asks once for each form, so few grammars are kept.
_MOST_BYTES: Final = 64 * 1024**2
_MOST_GRAMMARS: Final = 16
_NOISE: Final = re.compile(
    r"^(\[\d\d:\d\d:\d\d\]|Failed to create grammar from structural tag:)\s*"
)


class GrammarCompiler:
    """Answers one question at a time.

    Raises (on construction):
        RuntimeError: openvino-genai cannot load the tokenizer, or it has no vocabulary.
    """

    def __init__(self, model_path: str) -> None:
        tokenizer = genai.Tokenizer(model_path)
        size = token_count(tokenizer)
        if not size:
            raise RuntimeError("the tokenizer has no vocabulary that grammars could be made for")
        self._grammars = GrammarCache(
            tokenizer, size, max_bytes=_MOST_BYTES, max_count=_MOST_GRAMMARS
        )

    def check(self, question: Check) -> Accepted | Refused | Postponed:
        """Make the grammar of a form and compile it, within the limits of the question."""
        try:
            grammar = within(question.seconds, lambda: grammar_of(question.form))
        except CutOff:
            return Postponed(None)
        except FormError as error:
            return Refused(str(error), error.path)
        except MemoryError:
            return Refused(_TOO_MUCH_MEMORY)
        except RecursionError:
            return Refused("it is nested too deeply")
        except Exception as error:
            # The form is the only input, so it is the cause.
            where = traceback.extract_tb(error.__traceback__)[-1]
            log.error("a form ended in %s at %s:%s", type(error).__name__, *where[:2])
            return Refused("no grammar can be made of it")
        if question.longest is not None and len(grammar.text) > question.longest:
            return Postponed(len(grammar.text))
        try:
            self._grammars.make_room()
            self._grammars.compile(grammar)
        except MemoryError:
            return Refused(_TOO_MUCH_MEMORY)
        except Exception as error:
            return Refused(_reason(error))
        return Accepted(grammar)


def _reason(error: Exception) -> str:
    reason = library_reason(error)
    while found := _NOISE.match(reason):
        reason = reason[found.end() :]
    return _TOO_MUCH_MEMORY if "bad_alloc" in reason else reason
