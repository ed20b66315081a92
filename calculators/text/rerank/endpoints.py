"""The paths that reranking models answer."""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.endpoint import TaskEndpoint

#: Clients of Cohere's newer API use /v2, clients of TEI and vLLM no prefix. TEI's name no model.
RERANK: Final = TaskEndpoint("/rerank", aliases=("/v2/rerank", "/rerank"), needs_model=False)
SCORE: Final = TaskEndpoint("/score", aliases=("/score",), needs_model=False)
TOKENIZE: Final = TaskEndpoint("/tokenize", aliases=("/v3/rerank/tokenize", "/v1/rerank/tokenize"))
DETOKENIZE: Final = TaskEndpoint("/detokenize")
