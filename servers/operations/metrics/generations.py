"""Metrics of the generations of language models, counted when requests end."""

from __future__ import annotations

from typing import Final, NamedTuple

from calculators.kit.requests.request_record import GenerationRecord
from servers.operations.metrics.families import Families
from servers.operations.metrics.series import Counter, Histogram

#: Upper bounds in seconds.
_WAITS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_PER_TOKEN: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0),
)

FINISHED: Final = "finished"
CANCELLED: Final = "cancelled"
REFUSED: Final = "refused"
FAILED: Final = "failed"


class _NodeCounts(NamedTuple):
    preparation: Histogram
    engine_wait: Histogram
    first_token: Histogram
    per_token: Histogram
    whole: Histogram
    prompt_tokens: Counter
    generated_tokens: Counter
    shared_tokens: Counter
    outcomes: dict[str, Counter]
    reasons: dict[str, Counter]


class Generations:
    """The families ``graphrt_llm_...`` that are counted at the end of a request."""

    def __init__(self, families: Families) -> None:
        self._histograms = (
            families.histogram(
                "graphrt_llm_preparation_seconds",
                "From a request's arrival at the node until the engine got it: template, tokens, "
                "grammar.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_engine_wait_seconds",
                "From then to the first token: waiting in the engine's queue and the prompt's pass,"
                " which the engine does not distinguish.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_time_to_first_token_seconds",
                "From a request's arrival at the node to its first token.",
                _WAITS,
            ),
            families.histogram(
                "graphrt_llm_time_per_output_token_seconds",
                "Mean time between the tokens of a choice after the first, one value per request.",
                _PER_TOKEN,
            ),
            families.histogram(
                "graphrt_llm_request_seconds",
                "From a request's arrival at the node to its last token.",
                _WAITS,
            ),
        )
        self._counters = (
            families.counter(
                "graphrt_llm_prompt_tokens_total", "Tokens of the prompts of ended requests."
            ),
            families.counter(
                "graphrt_llm_generated_tokens_total", "Tokens generated for ended requests."
            ),
            families.counter(
                "graphrt_llm_shared_prompt_tokens_total",
                "Tokens of these prompts, in whole blocks, with which earlier requests began too: "
                "an estimate of what prefix caching saved.",
            ),
        )
        self._outcomes = families.counter(
            "graphrt_llm_requests_total",
            "Ended requests: finished, cancelled (the client went, or the time was over), refused "
            "(the request was wrong, or too many were there), failed.",
        )
        self._reasons = families.counter(
            "graphrt_llm_choices_total", "Choices of answers by their finish_reason."
        )
        self._nodes: dict[tuple[str, str], _NodeCounts] = {}

    def begin(self, graph: str, node: str) -> None:
        """Make the series of a node with the value 0."""
        labels = {"graph": graph, "node": node}
        preparation, engine_wait, first_token, per_token, whole = self._histograms
        prompt_tokens, generated_tokens, shared_tokens = self._counters
        self._nodes[graph, node] = _NodeCounts(
            preparation.of(labels),
            engine_wait.of(labels),
            first_token.of(labels),
            per_token.of(labels),
            whole.of(labels),
            prompt_tokens.of(labels),
            generated_tokens.of(labels),
            shared_tokens.of(labels),
            {
                outcome: self._outcomes.of({**labels, "outcome": outcome})
                for outcome in (FINISHED, CANCELLED, REFUSED, FAILED)
            },
            {},
        )

    def forget(self, graph: str) -> None:
        for key in [key for key in self._nodes if key[0] == graph]:
            del self._nodes[key]

    def end(self, graph: str, record: GenerationRecord, outcome: str, ended: int) -> None:
        """Count a generation of a served graph. On the event loop.

        ``ended``: its end, if the record has none.
        """
        counts = self._nodes.get((graph, record.node))
        if counts is None:
            self.begin(graph, record.node)
            counts = self._nodes[graph, record.node]
        ended = record.ended or ended
        counts.outcomes[outcome].counted += 1
        for reason in record.finish_reasons:
            choices = counts.reasons.get(reason)
            if choices is None:
                labels = {"graph": graph, "node": record.node, "finish_reason": reason}
                choices = counts.reasons[reason] = self._reasons.of(labels)
            choices.counted += 1
        counts.prompt_tokens.counted += record.prompt_tokens
        counts.generated_tokens.counted += record.completion_tokens
        counts.shared_tokens.counted += record.shared_tokens
        if record.submitted:
            counts.preparation.note((record.submitted - record.began) / 1e9)
        if record.first_token:
            counts.engine_wait.note((record.first_token - record.submitted) / 1e9)
            counts.first_token.note((record.first_token - record.began) / 1e9)
        if outcome != FINISHED:
            return
        counts.whole.note((ended - record.began) / 1e9)
        # Tokens of a choice after its first; choices are generated in parallel.
        later = record.completion_tokens / max(1, len(record.finish_reasons)) - 1
        if later > 0 and record.first_token:
            counts.per_token.note((ended - record.first_token) / 1e9 / later)
