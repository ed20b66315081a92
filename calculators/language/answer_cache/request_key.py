"""The digest of the part of a request on which its answer depends."""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from calculators.language import GenerationRequest

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def may_be_kept(request: GenerationRequest) -> bool:
    """True if the answer to a request could be given again.

    Not with log-probabilities or token ids, which a kept answer does not have; not with images that
    are fetched, because they may change; not to a request that is refused anyway.
    """
    return (
        request.refusal is None
        and not request.wants_logprobs
        and not request.returns_token_ids
        and all(image.url.startswith("data:") for image in request.images)
    )


def request_key(request: GenerationRequest) -> bytes:
    """Return the SHA-256 of a request. It costs time by the length of its content.

    Raises:
        ValueError: the request has content that is no JSON.
    """
    form = request.form.format if request.form is not None else None
    parts = (
        request.answer_model or request.model,
        request.api.value,
        request.n,
        request.messages,
        request.prompts,
        [image.url for image in request.images],
        [request.tools.items, request.tools.choice, request.parallel_tool_calls],
        form,
        [
            request.template.values,
            request.template.add_generation_prompt,
            request.template.continues,
        ],
        dict(request.sampling),
        [source.text for source in request.sources],
    )
    try:
        return hashlib.sha256(orjson.dumps(parts, option=_OPTIONS)).digest()
    except orjson.JSONEncodeError as error:
        raise ValueError("the request has content that is no JSON") from error
