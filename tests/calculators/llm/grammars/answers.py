"""Answers of the demo model that follow a form, sampled from all that the grammar allows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from calculators.llm.engine.genai_pipeline import GenaiPipeline
from calculators.llm.engine.messages import Add, NewTokens
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.grammars.form_grammar import grammar_of
from calculators.llm.grammars.formats import Format
from calculators.llm.grammars.grammar import AnswerForm, Grammar
from tests.calculators.llm.demo_model import DEMO, ONE_THREAD, demo_tokenizer

#: The demo model's length has no room for much more.
LONGEST = 400


class Answers:
    """The demo model, sampled so hot that it writes nearly anything that is allowed."""

    def __init__(self) -> None:
        settings = EngineSettings(model_path=str(DEMO), device="CPU", plugin_config={**ONE_THREAD})
        self.pipeline = GenaiPipeline(settings)
        self.tokenizer = demo_tokenizer()
        self._next_id = 0

    def tokens(self, text: str) -> bytes:
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        return np.asarray(encoded.input_ids.data, dtype=np.int64).tobytes()

    def write_all(self, grammar: Grammar, ways: Sequence[tuple[int, float]]) -> list[str | None]:
        """Generate answers side by side, one for each seed and temperature.

        The result is None where the model did not end its answer.
        """
        if not self.pipeline.is_compiled(grammar):
            self.pipeline.compile(grammar)
        gained: dict[int, list[NewTokens]] = {}
        for seed, temperature in ways:
            settings = GenerationSettings(
                max_new_tokens=LONGEST,
                grammar=grammar,
                do_sample=temperature > 0,
                temperature=temperature or None,
                rng_seed=seed,
            )
            self._next_id += 1
            gained[self._next_id] = []
            self.pipeline.add(Add(self._next_id, self.tokens("<|im_start|>assistant\n"), settings))
        while self.pipeline.has_work:
            for tokens in self.pipeline.step():
                gained[tokens.request_id].append(tokens)
        return [self._text(each) for each in gained.values()]

    def _text(self, gained: list[NewTokens]) -> str | None:
        if gained[-1].finish_reason != "stop":
            return None
        ids = [token for tokens in gained for token in tokens.token_ids][:-1]
        text: str = self.tokenizer.decode(ids, skip_special_tokens=False)
        return text

    def ended(self, grammar: Grammar, count: int) -> list[str]:
        """Generate answers for several seeds, and the greedy one; return those that ended.

        At least one does.
        """
        written = self.write_all(grammar, [*((seed, 2.0) for seed in range(count)), (0, 0.0)])
        ended = [text for text in written if text is not None]
        assert ended, "no answer came to an end"
        return ended

    def several(self, form: Format, count: int = 8) -> list[str]:
        """Return the result of `ended` for a form."""
        return self.ended(grammar_of(AnswerForm(json.dumps(form))), count)


def schema_of(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these properties, all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}
