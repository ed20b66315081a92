"""The members of requests for images, declared once: for the reader and for the OpenAPI document.

Names and texts of errors are OpenVINO Model Server's (``image_gen/imagegenutils.cpp``), OpenAI's,
and, as aliases, the names of Stable Diffusion's servers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from calculators.images.image_generation.sizes import SIDE_STEP
from calculators.kit.requests import fields, schema
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    Enumeration,
    Integer,
    Members,
    Value,
    honoured,
    ignored,
    refused,
    table,
)
from calculators.kit.requests.schema import Schema, const, one_of, record, values, word

#: Characters of a prompt; OpenAI has the same limit. Models read its first tokens, mostly 77.
MAX_CHARACTERS: Final = 32_000
MAX_PARTIAL_IMAGES: Final = 3
_UINT64_MAX: Final = 2**64 - 1
_INT64_MAX: Final = 2**63 - 1
_FLOAT_MAX: Final = 1e6


def refusal(text: str, param: str) -> RequestError:
    """Return the error of a member; ``text`` is for the client, and is not logged."""
    return RequestError(text, param=param, detail="invalid value")


@dataclass(frozen=True, slots=True)
class Text:
    """A text of bounded length."""

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise refusal(f"{path} field is not a string", path)
        if len(value) > MAX_CHARACTERS:
            raise refusal(
                f"{path}: {len(value)} characters are above the maximum {MAX_CHARACTERS}", path
            )
        try:
            value.encode()
        except UnicodeEncodeError:
            raise refusal(
                f"{path} field is not Unicode (it has half of a surrogate pair)", path
            ) from None
        return value

    def schema(self, about: str) -> Schema:
        return schema.string(about, maxLength=MAX_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number.

    Attributes:
        kind: OpenVINO Model Server's word for it.
        shown: its name in the error of a number that is too small; "" for the member's.
    """

    kind: str = "int"
    minimum: int = 1
    maximum: int = 2**31 - 1
    shown: str = ""

    def read(self, value: Any, path: str) -> int:
        value = fields.whole(value)
        if type(value) is not int or value > self.maximum:
            raise refusal(f"{path} field is not a {self.kind}", path)
        if value < self.minimum:
            raise refusal(f"{self.shown or path} must be higher than {self.minimum - 1}", path)
        return value

    def schema(self, about: str) -> Schema:
        return schema.integer(about, minimum=self.minimum, maximum=self.maximum)


@dataclass(frozen=True, slots=True)
class Fraction:
    """A finite number from 0 on, whole or not."""

    def read(self, value: Any, path: str) -> float:
        is_number = type(value) is int or type(value) is float
        if not is_number or not math.isfinite(value) or abs(value) > _FLOAT_MAX:
            raise refusal(f"{path} field is not a float", path)
        return float(value)

    def schema(self, about: str) -> Schema:
        return schema.number(about, minimum=0, maximum=_FLOAT_MAX)


def _response_format(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise refusal(f"{path} field is not a string", path)
    if value != "b64_json":
        raise refusal(
            f"Unsupported response_format: {value[:40]}. Only b64_json is supported.", path
        )
    return value


def _lora_alphas(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refusal("lora_alphas must be an object", path)
    return value


def _size(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise refusal("size field is not a string", path)
    return value


#: -1 asks for a random seed, as in Stable Diffusion's servers.
_SEED: Final = Whole("size_t", minimum=-1, maximum=_UINT64_MAX)
_STEPS: Final = Whole("size_t", maximum=_INT64_MAX, shown="num_inference_steps")
_IMAGES: Final = Whole(shown="num_images_per_prompt/n")
_SIDE: Final = Whole("int64", maximum=_INT64_MAX)
_FORMATS: Final = ("png", "jpeg", "webp", "jpg")

#: Names of the same member; the first one counts.
ALIASES: Final = {
    "n": "num_images_per_prompt",
    "steps": "num_inference_steps",
    "seed": "rng_seed",
    "cfg_scale": "guidance_scale",
}

_COMMON: Final[Members] = table(
    honoured(
        "model",
        Text(),
        "The name of the model, or of an adapter.",
        is_required=True,
        minLength=1,
    ),
    honoured("prompt_2", Text(), "For the second text encoder."),
    honoured("prompt_3", Text(), "For the third text encoder."),
    honoured("negative_prompt", Text(), "Not to be seen; needs a guidance_scale above 1."),
    honoured("negative_prompt_2", Text(), "For the second text encoder."),
    honoured("negative_prompt_3", Text(), "For the third text encoder."),
    honoured(
        "size",
        Value(schema.string(pattern=r"^(auto|[1-9][0-9]{0,17}x[1-9][0-9]{0,17})$"), _size),
        'Width and height in pixels, "1024x1024", or "auto". Sides are multiples of 8.',
    ),
    honoured("width", _SIDE, "Instead of size.", multipleOf=SIDE_STEP),
    honoured("height", _SIDE, "Instead of size.", multipleOf=SIDE_STEP),
    honoured("n", _IMAGES, "The number of images."),
    honoured("num_images_per_prompt", _IMAGES, "Instead of n."),
    honoured("num_inference_steps", _STEPS, "The number of steps of denoising."),
    honoured("steps", _STEPS, "Instead of num_inference_steps."),
    honoured(
        "rng_seed", _SEED, "The same seed gives the same images. Random by default, and for -1."
    ),
    honoured("seed", _SEED, "Instead of rng_seed."),
    honoured("guidance_scale", Fraction(), "How closely images follow the prompt."),
    honoured("cfg_scale", Fraction(), "Instead of guidance_scale."),
    honoured("max_sequence_length", Whole(maximum=512), "Tokens of the prompt for a T5 encoder."),
    honoured(
        "lora_alphas",
        Value(schema.anything(additionalProperties=schema.number()), _lora_alphas),
        "The strength of adapters, by their names.",
    ),
    honoured(
        "response_format",
        Value({"enum": ["b64_json"]}, _response_format),
        "Images are part of the answer.",
    ),
    honoured("output_format", Enumeration(_FORMATS), "The format of the images; default png."),
    honoured(
        "output_compression",
        Integer(maximum=100),
        "The quality of JPEG and WebP; default 100, the best.",
        beside=one_of(
            record({"output_compression": one_of(const(None), values([100]))}),
            record({"output_format": word(_FORMATS[1:])}, required=("output_format",)),
        ),
    ),
    honoured("background", Enumeration(("auto", "opaque")), "Images are never transparent."),
    honoured("stream", BOOLEAN, "Answer in server-sent events."),
    honoured(
        "partial_images",
        Integer(maximum=MAX_PARTIAL_IMAGES),
        "The number of unfinished images to send before the finished one; needs stream.",
        beside=one_of(
            record({"partial_images": one_of(const(None), values([0]))}),
            record({"stream": const(True)}, required=("stream",)),
        ),
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
    ignored(
        "says who asks, or chooses what this model does not offer",
        "user quality style moderation safety_identifier metadata",
    ),
    refused(
        "is not supported: one picture is drawn, in pixels",
        "frame_count frame_duration_ms svg complexity markup",
    ),
)

GENERATION_MEMBERS: Final[Members] = table(
    honoured("prompt", Text(), "The image in words.", is_required=True),
    _COMMON,
    honoured("strength", Fraction(), "1: there is no image to begin with.", minimum=1, maximum=1),
)

_FILE: Final = schema.string(format="binary")
_FILES_ABOUT: Final = "A PNG, JPEG, WebP, GIF or BMP file."

EDIT_MEMBERS: Final[Members] = table(
    honoured("prompt", Text(), "The new image in words.", is_required=True, minLength=1),
    _COMMON,
    honoured("strength", Fraction(), "0 to 1: how much of the image is redrawn.", maximum=1),
    ignored("is for other models", "input_fidelity"),
)
VARIATION_MEMBERS: Final[Members] = table(
    EDIT_MEMBERS, honoured("prompt", Text(), "The new image in words; default none.")
)

#: Parts of a form that are files, with their schemas.
EDIT_FILES: Final[dict[str, Schema]] = {
    "image": {**_FILE, "description": f"The image to begin with. {_FILES_ABOUT}"},
    "image[]": {**_FILE, "description": "The same; OpenAI's clients send this name."},
    "mask": {
        **_FILE,
        "description": "What to redraw: transparent pixels, or white ones of a picture without "
        "transparent ones.",
    },
}
VARIATION_FILES: Final = {name: EDIT_FILES[name] for name in ("image", "image[]")}
