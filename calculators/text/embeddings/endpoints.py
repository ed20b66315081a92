"""The paths that embedding models answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from calculators.kit.tasks.endpoint import ErrorForm, TaskEndpoint

EMBEDDINGS: Final = TaskEndpoint("/embeddings", aliases=("/api/v0/embeddings",))
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


def _nothing_embedded(members: Mapping[str, Any], *, member: str) -> str | None:
    """Return the answer to a request of Ollama's API without texts in ``member``.

    None: it has some. All other members are checked as in any request.

    Raises:
        RequestError: a member is wrong.
    """
    if members.get("input") not in (None, "", []) or members.get("prompt") not in (None, ""):
        return None
    from calculators.text.embeddings import request

    if member == "input":
        request.parse_ollama_embed_request({**members, member: "."})
    else:
        request.parse_ollama_embeddings_request({**members, member: "."})
    return '{"embeddings": [], "embedding": []}'


_ollama: Final = partial(
    TaskEndpoint,
    prefixes=("",),
    error_form=ErrorForm.OLLAMA,
    operation="embeddings",
)
#: Ollama's forms, the second of which is the older one.
OLLAMA_EMBED: Final = _ollama("/api/embed", only_loads=partial(_nothing_embedded, member="input"))
OLLAMA_EMBEDDINGS: Final = _ollama(
    "/api/embeddings", only_loads=partial(_nothing_embedded, member="prompt")
)
TOKENIZE: Final = TaskEndpoint(
    "/tokenize", aliases=("/v3/embeddings/tokenize", "/v1/embeddings/tokenize")
)
DETOKENIZE: Final = TaskEndpoint("/detokenize")
