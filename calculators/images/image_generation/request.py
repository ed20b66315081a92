"""Requests for images, checked."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from calculators.images.image_generation.messages import DrawingKind
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.request_members import (
    ALIASES,
    EDIT_FILES,
    EDIT_MEMBERS,
    GENERATION_MEMBERS,
    VARIATION_FILES,
    VARIATION_MEMBERS,
    refusal,
)
from calculators.images.image_generation.sizes import Size, parse_size
from calculators.images.media.image import MAX_IMAGE_BYTES
from calculators.kit.requests.form_members import files_of, find_file, form_members
from calculators.kit.requests.http_payload import FormFile, MultipartForm, RequestError
from calculators.kit.requests.members import Members, handle_unknown, read_members

#: Random seeds are below: programs without 64-bit integers read them too.
_SEEDS: Final = 2**32
#: Seeds of the library, whose random numbers depend on the last 32 bits.
_LIBRARY_SEEDS: Final = 2**63
_FURTHER_PROMPTS: Final = (
    "prompt_2", "prompt_3", "negative_prompt", "negative_prompt_2", "negative_prompt_3",
)  # fmt: skip
_BEST: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """A request for images.

    Attributes:
        model: the name that the client used.
        parameters: the library's, without size and adapters.
        size: None: as the given image has it.
        images: the number of images to draw.
        seed: chosen by the client or at random.
        output_format: "png", "jpeg" or "webp".
        quality: 0 to 100, for JPEG and WebP.
        image, mask: files; empty for kinds that need none.
        alphas: of each adapter; empty if they are fixed.
    """

    kind: DrawingKind
    model: str
    prompt: str
    parameters: Mapping[str, Any]
    size: Size | None
    images: int
    steps: int
    seed: int
    output_format: str
    quality: int
    is_stream: bool
    partial_images: int
    image: bytes
    mask: bytes
    alphas: list[float]


def read_generation(body: object, rules: ModelRules) -> ImageRequest:
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: with the member that is wrong, or that is not known.
    """
    if not isinstance(body, dict):
        raise RequestError("JSON body must be an object")
    rules.check_kind(DrawingKind.TEXT_TO_IMAGE)
    if body.get("prompt") is None:
        raise refusal("prompt field is missing in JSON body", "prompt")
    read = _members(body, GENERATION_MEMBERS)
    return _request(DrawingKind.TEXT_TO_IMAGE, read, rules)


def read_edit(form: MultipartForm, rules: ModelRules) -> ImageRequest:
    """Return the request of a form: a new image from an image, or its masked part redrawn.

    Raises:
        RequestError: as `read_generation`.
    """
    _check_files(form, EDIT_FILES)
    image, mask = _image_of(form), _mask_of(form)
    kind = DrawingKind.INPAINTING if mask else DrawingKind.IMAGE_TO_IMAGE
    rules.check_kind(kind)
    if not any(form.fields.get("prompt", ())):
        raise refusal("prompt field is missing in multipart body", "prompt")
    read = _members(_body_of(form, EDIT_MEMBERS), EDIT_MEMBERS)
    return _request(kind, read, rules, image=image, mask=mask)


def read_variation(form: MultipartForm, rules: ModelRules) -> ImageRequest:
    """Return the request of a form: another image like the given one.

    Raises:
        RequestError: as `read_generation`.
    """
    _check_files(form, VARIATION_FILES)
    image = _image_of(form)
    rules.check_kind(DrawingKind.IMAGE_TO_IMAGE)
    read = _members(_body_of(form, VARIATION_MEMBERS), VARIATION_MEMBERS)
    return _request(DrawingKind.IMAGE_TO_IMAGE, read, rules, image=image)


def text_request(prompt: str, rules: ModelRules) -> ImageRequest:
    """Return the request for one image of a text, with all defaults.

    Raises:
        RequestError: the text is too long, or the model draws no texts.
    """
    rules.check_kind(DrawingKind.TEXT_TO_IMAGE)
    return _request(
        DrawingKind.TEXT_TO_IMAGE, _members({"prompt": prompt}, GENERATION_MEMBERS), rules
    )


def _members(body: Mapping[str, Any], members: Members) -> dict[str, Any]:
    return read_members(body, members, lambda name: f"Unhandled parameter: {name[:64]}")


def _request(
    kind: DrawingKind,
    read: dict[str, Any],
    rules: ModelRules,
    *,
    image: bytes = b"",
    mask: bytes = b"",
) -> ImageRequest:
    for alias, name in ALIASES.items():
        if alias in read and name in read:
            raise refusal(f"Key: {name} already exists in request options.", alias)
        if alias in read:
            read[name] = read.pop(alias)
    steps = rules.steps(read.get("num_inference_steps"))
    guidance = rules.guidance(read.get("guidance_scale"))
    images = rules.images(read.get("num_images_per_prompt"))
    seed = _seed(read.get("rng_seed"), rules)
    strength = rules.strength(read.get("strength"), kind, steps)
    parameters = {
        "num_inference_steps": steps,
        "num_images_per_prompt": images,
        "rng_seed": seed % _LIBRARY_SEEDS,
        "guidance_scale": guidance,
    }
    if kind is not DrawingKind.TEXT_TO_IMAGE:
        parameters["strength"] = strength
    for name in _FURTHER_PROMPTS:
        if name in read:
            rules.check_prompt_member(name, guidance)
            parameters[name] = read[name]
    if "max_sequence_length" in read:
        parameters["max_sequence_length"] = read["max_sequence_length"]
    output_format, quality = _output(read)
    is_stream = read.get("stream", False)
    partial_images = read.get("partial_images", 0)
    if partial_images and not is_stream:
        raise refusal("partial_images needs stream: true", "partial_images")
    return ImageRequest(
        kind=kind,
        model=read.get("model", ""),
        prompt=read.get("prompt", ""),
        parameters=parameters,
        size=_size(read, rules, kind),
        images=images,
        steps=steps,
        seed=seed,
        output_format=output_format,
        quality=quality,
        is_stream=is_stream,
        partial_images=partial_images,
        image=image,
        mask=mask,
        alphas=rules.options.loras.alphas(read.get("model", ""), read.get("lora_alphas")),
    )


def _seed(wanted: int | None, rules: ModelRules) -> int:
    if wanted is None:
        wanted = rules.default_seed
    return secrets.randbelow(_SEEDS) if wanted is None or wanted < 0 else wanted


def _size(read: Mapping[str, Any], rules: ModelRules, kind: DrawingKind) -> Size | None:
    size: Size | None = None
    if "size" in read:
        try:
            size = parse_size(read["size"])
        except ValueError as error:
            raise refusal(str(error), "size") from None
    given = [name for name in ("width", "height") if name in read]
    if size is not None and given:
        raise refusal(f"Key: {given[0]} already exists in request options.", given[0])
    param = given[0] if given else "size"
    if given:
        default = rules.default_size(DrawingKind.TEXT_TO_IMAGE)
        assert default is not None
        if len(given) == 1 and rules.options.sizes:
            other = "height" if given[0] == "width" else "width"
            raise refusal(
                f"NPU Image Generation requested {given[0]} but {other} is missing", other
            )
        size = Size(read.get("width", default.width), read.get("height", default.height))
    if size is None:
        size = rules.default_size(kind)
    if size is not None:
        rules.check_size(size, param)
    return size


def _output(read: Mapping[str, Any]) -> tuple[str, int]:
    output_format = read.get("output_format", "png")
    if output_format == "jpg":
        output_format = "jpeg"
    quality = read.get("output_compression", _BEST)
    if output_format == "png" and quality != _BEST:
        raise refusal(
            "output_compression is for output_format jpeg and webp; png has no quality",
            "output_compression",
        )
    return output_format, quality


# Forms --------------------------------------------------------------------------------------------


def _body_of(form: MultipartForm, members: Members) -> dict[str, Any]:
    """Return the fields of a form as a JSON body has them; empty ones are left out."""
    body = form_members(form, members)
    if isinstance(body.get("lora_alphas"), str):
        raise refusal("lora_alphas field must be valid JSON", "lora_alphas")
    return {name: value for name, value in body.items() if value != ""}


def _check_files(form: MultipartForm, known: Mapping[str, Any]) -> None:
    for name in form.files:
        if name not in known:
            handle_unknown(name, known, f"Unhandled parameter: {name[:64]}")


def _image_of(form: MultipartForm) -> bytes:
    """Return the one image of a form."""
    files = files_of(form, "image")
    if not files:
        raise refusal("Image field is missing in multipart body", "image")
    if len(files) > 1:
        raise refusal(
            f"image: this model begins with one image, and {len(files)} are given", "image"
        )
    return _content(files[0], "image")


def _mask_of(form: MultipartForm) -> bytes:
    """Return the mask of a form; empty without one."""
    file = find_file(form, "mask")
    return b"" if file is None else _content(file, "mask")


def _content(file: FormFile, name: str) -> bytes:
    if not file.content:
        raise refusal(f"Image parsing failed: {name}: the file is empty", name)
    if len(file.content) > MAX_IMAGE_BYTES:
        raise refusal(
            f"Image parsing failed: {name}: the file is larger than {MAX_IMAGE_BYTES} bytes", name
        )
    return file.content
