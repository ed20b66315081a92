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
from tests.support.apart import Apart

#: The demo model's length has no room for much more.
LONGEST = 400


class _Model:
    """The demo model, in a process of its own."""

    def __init__(self) -> None:
        settings = EngineSettings(model_path=str(DEMO), device="CPU", plugin_config={**ONE_THREAD})
        self._pipeline = GenaiPipeline(settings)
        self._next_id = 0

    def run(
        self, prompt: bytes, ways: Sequence[GenerationSettings]
    ) -> list[tuple[list[int], str | None]]:
        gained: dict[int, list[NewTokens]] = {}
        for settings in ways:
            grammar = settings.grammar
            if grammar is not None and not self._pipeline.is_compiled(grammar):
                self._pipeline.compile(grammar)
            self._next_id += 1
            gained[self._next_id] = []
            self._pipeline.add(Add(self._next_id, prompt, settings))
        while self._pipeline.has_work:
            for tokens in self._pipeline.step():
                gained[tokens.request_id].append(tokens)
        return [
            ([token for tokens in each for token in tokens.token_ids], each[-1].finish_reason)
            for each in gained.values()
        ]


class Answers:
    """The demo model, sampled so hot that it writes nearly anything that is allowed."""

    def __init__(self) -> None:
        self._model = Apart(_Model)
        self.tokenizer = demo_tokenizer()

    def tokens(self, text: str) -> bytes:
        encoded = self.tokenizer.encode(text, add_special_tokens=False)
        return np.asarray(encoded.input_ids.data, dtype=np.int64).tobytes()

    def run(
        self, prompt: str, ways: Sequence[GenerationSettings]
    ) -> list[tuple[list[int], str | None]]:
        """Generate answers side by side; return the tokens of each, and why it ended."""
        ran: list[tuple[list[int], str | None]] = self._model.call("run", self.tokens(prompt), ways)
        return ran

    def write_all(self, grammar: Grammar, ways: Sequence[tuple[int, float]]) -> list[str | None]:
        """Generate answers side by side, one for each seed and temperature.

        The result is None where the model did not end its answer.
        """
        settings = [
            GenerationSettings(
                max_new_tokens=LONGEST,
                grammar=grammar,
                do_sample=temperature > 0,
                temperature=temperature or None,
                rng_seed=seed,
            )
            for seed, temperature in ways
        ]
        return [
            self.tokenizer.decode(ids[:-1], skip_special_tokens=False) if reason == "stop" else None
            for ids, reason in self.run("<|im_start|>assistant\n", settings)
        ]

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
