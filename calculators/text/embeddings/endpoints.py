"""The paths that embedding models answer."""

from __future__ import annotations

from typing import Final

from calculators.kit.tasks.endpoint import ErrorForm, TaskEndpoint

EMBEDDINGS: Final = TaskEndpoint("/embeddings")
#: The forms of text-embeddings-inference, whose clients name no model, and of Cohere.
COHERE_PATH: Final = "/v2/embed"
EMBED: Final = TaskEndpoint("/embed", aliases=("/embed", COHERE_PATH), needs_model=False)
_GOOGLE: Final = "/models/{model}"
EMBED_CONTENT: Final = TaskEndpoint(
    f"{_GOOGLE}:embedContent",
    aliases=(f"/v1beta{_GOOGLE}:embedContent",),
    error_form=ErrorForm.GOOGLE,
    operation="embeddings",
)
BATCH_EMBED_CONTENTS: Final = TaskEndpoint(
    f"{_GOOGLE}:batchEmbedContents",
    aliases=(f"/v1beta{_GOOGLE}:batchEmbedContents",),
    error_form=ErrorForm.GOOGLE,
    operation="embeddings",
)
TOKENIZE: Final = TaskEndpoint(
    "/tokenize", aliases=("/v3/embeddings/tokenize", "/v1/embeddings/tokenize")
)
DETOKENIZE: Final = TaskEndpoint("/detokenize")
