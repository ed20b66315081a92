"""The endpoints of models that classify texts, by the last part of their paths."""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.endpoint import TaskEndpoint

#: OpenAI's client names no model in moderations by default, and clients of
#: text-embeddings-inference know one model only.
ENDPOINTS: Final = {
    "classify": TaskEndpoint("/classify", aliases=("/classify",), needs_model=False),
    "moderations": TaskEndpoint("/moderations", needs_model=False),
    "predict": TaskEndpoint("/predict", aliases=("/predict",), needs_model=False),
}
