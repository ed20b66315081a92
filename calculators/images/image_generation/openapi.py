"""The OpenAPI description of the images endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calculators.images.image_generation.request_members import (
    EDIT_FILES,
    EDIT_MEMBERS,
    GENERATION_MEMBERS,
    VARIATION_FILES,
    VARIATION_MEMBERS,
)
from calculators.kit.requests.members import Members
from calculators.kit.requests.schema import (
    Schema,
    array,
    const,
    integer,
    one_of,
    record,
    ref,
    string,
    word,
)
from calculators.kit.tasks.operation import (
    EVENTS,
    FORM,
    JSON,
    MediaType,
    Operation,
    TaskDescription,
    answer,
    events,
    media,
    posted,
    prefixed,
    with_timeout,
)

_FORMATS: Final = word(("png", "jpeg", "webp"))
_B64: Final = string("The image's file.", contentEncoding="base64")
_SIZE: Final = string('Width and height in pixels, as in "512x512".')
_SEED: Final = integer("Drawn again with this rng_seed, the image is the same.", minimum=0)
_TOKENS: Final = integer(minimum=0)
_DETAILS: Final = record(
    {"image_tokens": _TOKENS, "text_tokens": _TOKENS}, required=("image_tokens", "text_tokens")
)
_USAGE: Final = record(
    {
        "input_tokens": integer("Tokens of the prompt that the model reads.", minimum=0),
        "input_tokens_details": _DETAILS,
        "output_tokens": _TOKENS,
        "output_tokens_details": _DETAILS,
        "total_tokens": _TOKENS,
    },
    required=("input_tokens", "input_tokens_details", "output_tokens", "total_tokens"),
)
_COMMON: Final[dict[str, Schema]] = {
    "background": const("opaque"),
    "output_format": _FORMATS,
    "quality": const("auto"),
    "size": _SIZE,
}


def _event(name: str, members: Mapping[str, Schema]) -> Schema:
    described = {
        "type": const(name),
        "b64_json": _B64,
        **_COMMON,
        "created_at": integer("Seconds since 1970.", minimum=0),
        "index": integer("The place among the images of the request.", minimum=0),
        "seed": _SEED,
        **members,
    }
    return record(described, required=tuple(described))


_ANSWERS: Final[dict[str, Schema]] = {
    "ImageUsage": _USAGE,
    "ImagesResponse": record(
        {
            "created": integer("Seconds since 1970.", minimum=0),
            "data": array(record({"b64_json": _B64, "seed": _SEED}, required=("b64_json", "seed"))),
            **_COMMON,
            "usage": ref("ImageUsage"),
        },
        required=("created", "data", "output_format", "size", "usage"),
    ),
    **{
        f"{prefix}{name}": _event(f"{kind}.{event}", members)
        for prefix, kind in (("ImageGeneration", "image_generation"), ("ImageEdit", "image_edit"))
        for name, event, members in (
            (
                "PartialImage",
                "partial_image",
                {"partial_image_index": integer("Its place among them.", minimum=0, maximum=2)},
            ),
            ("Completed", "completed", {"usage": ref("ImageUsage")}),
        )
    },
}


def describe(model: str) -> TaskDescription:
    """Operations and schemas. ``model``: a name for the example."""
    generation = _operation(
        "/images/generations",
        "createImage",
        "Images from a text",
        "ImageGeneration",
        {
            JSON: media(
                ref("CreateImageRequest"),
                an_image={"model": model, "prompt": "A cat in a hat", "size": "512x512"},
            )
        },
    )
    edit = _operation(
        "/images/edits",
        "createImageEdit",
        "A redrawn image, or an image with its masked part redrawn",
        "ImageEdit",
        {FORM: media(ref("CreateImageEditRequest"))},
    )
    variation = _operation(
        "/images/variations",
        "createImageVariation",
        "Another image like a given one",
        "ImageEdit",
        {FORM: media(ref("CreateImageVariationRequest"))},
    )
    return TaskDescription(
        (generation, edit, variation),
        {
            "CreateImageRequest": with_timeout(GENERATION_MEMBERS),
            "CreateImageEditRequest": _form(EDIT_MEMBERS, EDIT_FILES),
            "CreateImageVariationRequest": _form(VARIATION_MEMBERS, VARIATION_FILES),
            **_ANSWERS,
        },
    )


def _operation(
    path: str, name: str, summary: str, event: str, body: Mapping[str, MediaType]
) -> Operation:
    described = one_of(ref(f"{event}PartialImage"), ref(f"{event}Completed"))
    return posted(
        prefixed(path),
        id=name,
        summary=summary,
        body=body,
        answers={
            200: answer(
                "The images.",
                {
                    JSON: media(ref("ImagesResponse")),
                    EVENTS: events("With stream: an event for each image.", described),
                },
            )
        },
    )


def _form(members: Members, files: Mapping[str, Schema]) -> Schema:
    """Describe a form. Names of lists are patterns: generators confuse them with the plain ones."""
    body = with_timeout(members)
    body["description"] = "An empty text is as good as absent."
    body["properties"] |= {name: form for name, form in files.items() if name.isidentifier()}
    body["patternProperties"] = {
        "^" + name.replace("[]", r"\[\]") + "$": form
        for name, form in files.items()
        if not name.isidentifier()
    }
    body["anyOf"] = [{"required": [name]} for name in files if name.startswith("image")]
    return body
