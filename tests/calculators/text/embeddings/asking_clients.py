"""Unmodified client libraries that ask for embeddings: ``python asking_clients.py URL LIBRARY...``.

The last line on standard output is JSON: by library, the facts that it reports, or its traceback.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

TEXTS = ["The cat sat on the mat.", "Dogs"]
MODEL = "tiny"


def with_openai(url: str) -> Any:
    import openai

    client = openai.OpenAI(base_url=f"{url}/v3", api_key="unused", max_retries=0)
    default = client.embeddings.create(model=MODEL, input=TEXTS)
    as_floats = client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float")
    short = client.embeddings.create(model=MODEL, input=TEXTS[0], dimensions=3, user="me")
    refused: list[Any] = []
    try:
        client.embeddings.create(model=MODEL, input=[])
    except openai.BadRequestError as error:
        refused = [error.status_code, error.param]
    return {
        "vectors": [each.embedding for each in default.data],
        "floats": [each.embedding for each in as_floats.data],
        "short": len(short.data[0].embedding),
        "model": default.model,
        "tokens": default.usage.total_tokens,
        "refused": refused,
    }


def with_langchain(url: str) -> Any:
    from langchain_openai import OpenAIEmbeddings
    from pydantic import SecretStr

    embeddings = OpenAIEmbeddings(
        model=MODEL,
        base_url=f"{url}/v1",
        api_key=SecretStr("unused"),
        check_embedding_ctx_length=False,
    )
    return {
        "vectors": embeddings.embed_documents(TEXTS),
        "query": embeddings.embed_query(TEXTS[0]),
    }


def with_litellm(url: str) -> Any:
    import litellm

    answer = litellm.embedding(
        model=f"openai/{MODEL}", input=TEXTS, api_base=f"{url}/v1", api_key="unused"
    )
    return {"vectors": [each["embedding"] for each in answer.data]}


def with_llama_index(url: str) -> Any:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    embedding = OpenAILikeEmbedding(model_name=MODEL, api_base=f"{url}/v1", api_key="unused")
    return {"vectors": embedding.get_text_embedding_batch(TEXTS)}


def with_cohere(url: str) -> Any:
    import cohere

    client = cohere.ClientV2(api_key="unused", base_url=url)
    answer = client.embed(
        model=MODEL,
        texts=TEXTS,
        input_type="search_document",
        embedding_types=["float", "int8"],
    )
    inputs: Any = [{"content": [{"type": "text", "text": each}]} for each in TEXTS]
    same = client.embed(model=MODEL, input_type="search_document", inputs=inputs)
    assert same.embeddings.float_ == answer.embeddings.float_
    return {"vectors": answer.embeddings.float_, "int8": answer.embeddings.int8}


def with_google(url: str) -> Any:
    import google.genai as genai
    from google.genai import types

    options = types.HttpOptions(base_url=url)
    with genai.Client(api_key="unused", http_options=options) as client:
        config = types.EmbedContentConfig(task_type="RETRIEVAL_DOCUMENT")
        # A list of texts would be the parts of one content.
        contents: Any = [types.Content(parts=[types.Part(text=text)]) for text in TEXTS]
        answer = client.models.embed_content(model=MODEL, contents=contents, config=config)
        one = client.models.embed_content(
            model=MODEL, contents=TEXTS[0], config=types.EmbedContentConfig(output_dimensionality=3)
        )
    return {
        "vectors": [each.values for each in answer.embeddings],
        "short": len(one.embeddings[0].values),
    }


LIBRARIES: dict[str, Callable[[str], Any]] = {
    "openai": with_openai,
    "langchain_openai": with_langchain,
    "litellm": with_litellm,
    "llama_index.embeddings.openai_like": with_llama_index,
    "cohere": with_cohere,
    "google.genai": with_google,
}


def main(url: str, *libraries: str) -> None:
    told: dict[str, Any] = {}
    for library in libraries:
        try:
            told[library] = LIBRARIES[library](url)
        except Exception:  # the other libraries are not to blame
            told[library] = traceback.format_exc()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
