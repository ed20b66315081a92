"""`Prover`: makes grammars and tries them, on a pipeline that nobody else uses."""

from __future__ import annotations

import re
from typing import Final

import openvino_genai as genai

from calculators.llm.child.library_errors import library_reason
from calculators.llm.engine.grammar_cache import GrammarCache
from calculators.llm.structured.form_grammar import FormError, grammar_of
from calculators.llm.structured.grammar import AnswerForm
from calculators.llm.structured.messages import Accepted, Refused
from calculators.llm.structured.tiny_pipeline import token_count

_NOISE: Final = re.compile(
    r"^(\[\d\d:\d\d:\d\d\]|Failed to create grammar from structural tag:)\s*"
)


class Prover:
    """Answers one question after the other.

    Raises (on construction):
        RuntimeError: openvino-genai cannot load the tokenizer, or it tells no vocabulary.
    """

    def __init__(self, model_path: str) -> None:
        tokenizer = genai.Tokenizer(model_path)
        size = token_count(tokenizer)
        if not size:
            raise RuntimeError("the tokenizer has no vocabulary that grammars could be made for")
        self._grammars = GrammarCache(tokenizer, size)

    def check(self, form: AnswerForm) -> Accepted | Refused:
        """Can the engine follow it?"""
        try:
            grammar = grammar_of(form)
            self._grammars.make_room()
            self._grammars.compile(grammar)
        except FormError as error:
            return Refused(str(error), error.path)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return Refused(_reason(error))
        except MemoryError:
            return Refused("it needs too much memory")
        return Accepted(grammar)


def _reason(error: Exception) -> str:
    reason = library_reason(error)
    while found := _NOISE.match(reason):
        reason = reason[found.end() :]
    return "it needs too much memory" if "bad_alloc" in reason else reason
