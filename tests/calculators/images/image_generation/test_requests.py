"""Requests for images: defaults, bounds, aliases, and the errors of invalid ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calculators.images.image_generation.messages import DrawingKind, DrawingReady
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.node_options import (
    ImageGenOptions,
    LoraAdapter,
    LoraAdapters,
    LoraMode,
    StaticShape,
)
from calculators.images.image_generation.request import (
    ImageRequest,
    read_edit,
    read_generation,
    read_variation,
    text_request,
)
from calculators.images.image_generation.sizes import Size
from calculators.kit.requests.http_payload import FormFile, MultipartForm, RequestError
from graph_runtime import Code

PICTURE = FormFile("a.png", "image/png", b"not looked at here")


def rules(
    *,
    pipeline: str = "StableDiffusionPipeline",
    kinds: tuple[DrawingKind, ...] = tuple(DrawingKind),
    lcm: bool = False,
    seed: int | None = None,
    **changes: Any,
) -> ModelRules:
    """Return the rules of a model of 64x64; ``changes`` of the options."""
    options: dict[str, Any] = {
        "directory": Path("/"),
        "devices": ("CPU",),
        "properties": {},
        "largest": Size(512, 256),
        "default_size": None,
        "sizes": (),
        "static": None,
        "max_images": 4,
        "default_steps": 10,
        "max_steps": 20,
        "loras": LoraAdapters(),
        **changes,
    }
    ready = DrawingReady(
        kinds=list(kinds),
        pipeline=pipeline,
        width=64,
        height=64,
        guidance_scale=7.5,
        strengths={DrawingKind.IMAGE_TO_IMAGE: 0.8},
        max_steps=15,
        is_consistency_model=lcm,
        seconds=0.0,
    )
    return ModelRules(ImageGenOptions(**options), ready, seed)


def generation(of: ModelRules | None = None, **body: Any) -> ImageRequest:
    return read_generation({"prompt": "a cat", **body}, of or rules())


def refused(of: ModelRules | None = None, **body: Any) -> tuple[str, str | None]:
    with pytest.raises(RequestError) as caught:
        generation(of, **body)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return str(caught.value), caught.value.param


def form(image: Any = PICTURE, /, mask: Any = None, **fields: str) -> MultipartForm:
    files = {"image": [image]} if image else {}
    if mask:
        files["mask"] = [mask]
    return MultipartForm({name: [text] for name, text in fields.items()}, files)


def test_a_prompt_is_enough() -> None:
    request = generation()
    assert (request.kind, request.prompt) == (DrawingKind.TEXT_TO_IMAGE, "a cat")
    assert (request.size, request.images, request.steps) == (Size(64, 64), 1, 10)
    assert (request.output_format, request.quality) == ("png", 100)
    assert (request.is_stream, request.partial_images) == (False, 0)
    assert request.parameters == {
        "num_inference_steps": 10,
        "num_images_per_prompt": 1,
        "rng_seed": request.seed,
        "guidance_scale": 7.5,
    }


def test_seeds_are_random_unless_given() -> None:
    assert len({generation().seed for _ in range(8)}) > 1
    assert len({generation(seed=-1).seed for _ in range(8)}) > 1
    assert generation(rng_seed=0).seed == 0
    assert generation(seed=2**64 - 1).seed == 2**64 - 1
    assert generation(rules(seed=42)).seed == 42
    assert generation(rules(seed=42), seed=5).seed == 5


def test_aliases_and_null() -> None:
    request = generation(n=2, steps=5, cfg_scale=3, width=128, quality=None, size=None)
    assert (request.images, request.steps) == (2, 5)
    assert request.parameters["guidance_scale"] == 3.0
    assert request.size == Size(128, 64)
    assert generation(size="auto").size == Size(64, 64)
    assert generation(output_format="jpg", output_compression=50).output_format == "jpeg"


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        ({"prompt": None}, "prompt field is missing in JSON body", "prompt"),
        ({"prompt": 5}, "prompt field is not a string", "prompt"),
        ({"prompt": "a" * 32_001}, "above the maximum 32000", "prompt"),
        ({"prompt": "\ud800"}, "not Unicode", "prompt"),
        ({"negative_prompt": []}, "negative_prompt field is not a string", "negative_prompt"),
        ({"size": 64}, "size field is not a string", "size"),
        ({"size": "64"}, "size field is not in correct format - WxH", "size"),
        ({"size": "0x64"}, "size field values must be greater than 0", "size"),
        ({"size": "1x1"}, "1x1: both sides must be multiples of 8", "size"),
        ({"size": "60x64"}, "both sides must be multiples of 8", "size"),
        ({"size": "520x64"}, "520x64 is above the maximum 512x256", "size"),
        ({"size": "64x264"}, "64x264 is above the maximum 512x256", "size"),
        ({"size": "100000x100000"}, "above the maximum 512x256", "size"),
        ({"width": 0}, "width must be higher than 0", "width"),
        ({"height": -8}, "height must be higher than 0", "height"),
        ({"width": 64.5}, "width field is not a int64", "width"),
        ({"width": 2**63}, "width field is not a int64", "width"),
        ({"width": 100_000}, "above the maximum", "width"),
        ({"size": "64x64", "width": 64}, "Key: width already exists in request options.", "width"),
        ({"n": 0}, "num_images_per_prompt/n must be higher than 0", "n"),
        ({"n": True}, "n field is not a int", "n"),
        ({"n": 5}, "num_images_per_prompt/n is greater than maxNumImagesPerPrompt: 4", "n"),
        (
            {"n": 1, "num_images_per_prompt": 1},
            "Key: num_images_per_prompt already exists in request options.",
            "n",
        ),
        (
            {"num_inference_steps": 0},
            "num_inference_steps must be higher than 0",
            "num_inference_steps",
        ),
        (
            {"num_inference_steps": 16},
            "num_inference_steps is greater than maxNumInferenceSteps: 15",
            "num_inference_steps",
        ),
        (
            {"num_inference_steps": "5"},
            "num_inference_steps field is not a size_t",
            "num_inference_steps",
        ),
        ({"rng_seed": -2}, "rng_seed must be higher than -2", "rng_seed"),
        ({"rng_seed": 2**64}, "rng_seed field is not a size_t", "rng_seed"),
        ({"rng_seed": 1, "seed": 1}, "Key: rng_seed already exists", "seed"),
        ({"strength": 1.5}, "strength is greater than maxStrength: 1", "strength"),
        ({"strength": -0.5}, "strength is less than minStrength: 0", "strength"),
        ({"strength": 0.5}, "strength must be 1 where there is no image", "strength"),
        ({"guidance_scale": "7"}, "guidance_scale field is not a float", "guidance_scale"),
        ({"guidance_scale": -1}, "guidance_scale is less than 0", "guidance_scale"),
        ({"guidance_scale": float("nan")}, "guidance_scale field is not a float", "guidance_scale"),
        ({"max_sequence_length": 0}, "must be higher than 0", "max_sequence_length"),
        (
            {"response_format": "url"},
            "Unsupported response_format: url. Only b64_json is supported.",
            "response_format",
        ),
        ({"response_format": 1}, "response_format field is not a string", "response_format"),
        ({"lora_alphas": []}, "lora_alphas must be an object", "lora_alphas"),
        (
            {"lora_alphas": {"a": 1}},
            "lora_alphas is not supported when no dynamic LoRA adapters are available.",
            "lora_alphas",
        ),
        ({"output_format": "gif"}, 'is none of "png", "jpeg", "webp"', "output_format"),
        ({"output_compression": 101}, "above the maximum 100", "output_compression"),
        ({"output_compression": 50}, "png has no quality", "output_compression"),
        ({"background": "transparent"}, "is none of", "background"),
        ({"partial_images": 4, "stream": True}, "above the maximum 3", "partial_images"),
        ({"partial_images": 1}, "partial_images needs stream: true", "partial_images"),
        ({"frame_count": 5}, "one picture is drawn", "frame_count"),
        ({"promt": "a"}, "Unhandled parameter: promt", "promt"),
        ({"image": "aGk="}, "Unhandled parameter: image", "image"),
    ],
)
def test_a_wrong_member_is_refused_by_name(body: dict[str, Any], message: str, param: str) -> None:
    said, named = refused(**body)
    assert message in said
    assert named == param


@pytest.mark.parametrize("body", [None, [], "text", 5])
def test_a_body_that_is_no_object_is_refused(body: object) -> None:
    with pytest.raises(RequestError, match="JSON body must be an object"):
        read_generation(body, rules())


@pytest.mark.parametrize(
    "member",
    ["user", "quality", "style", "moderation", "safety_identifier", "metadata"],
)
def test_members_of_openai_without_effect_are_taken(member: str) -> None:
    body: dict[str, Any] = {"seed": 1, member: "auto"}
    assert generation(**body) == generation(seed=1)


@pytest.mark.parametrize(
    ("pipeline", "taken"),
    [
        ("StableDiffusionPipeline", {"negative_prompt"}),
        ("StableDiffusionXLPipeline", {"prompt_2", "negative_prompt", "negative_prompt_2"}),
        (
            "StableDiffusion3Pipeline",
            {
                *("prompt_2", "prompt_3"),
                *("negative_prompt", "negative_prompt_2", "negative_prompt_3"),
            },
        ),
        ("FluxPipeline", {"prompt_2"}),
        ("LatentConsistencyModelPipeline", set()),
    ],
)
def test_further_prompts_are_for_models_that_read_them(pipeline: str, taken: set[str]) -> None:
    of = rules(pipeline=pipeline)
    for name in ("prompt_2", "prompt_3", *(f"negative_prompt{end}" for end in ("", "_2", "_3"))):
        if name in taken:
            assert generation(of, **{name: "a"}).parameters[name] == "a"
        else:
            said, param = refused(of, **{name: "a"})
            assert (f"{name} is not used by this model" in said, param) == (True, name)


def test_a_negative_prompt_needs_guidance() -> None:
    said, param = refused(negative_prompt="a dog", guidance_scale=1)
    assert "needs a guidance_scale above 1" in said
    assert param == "negative_prompt"
    assert "is not used by this model" in refused(rules(lcm=True), negative_prompt="a dog")[0]


def test_a_static_shape_is_that_of_every_request() -> None:
    static = StaticShape(size=Size(64, 64), images=2, guidance_scale=5.5)
    of = rules(static=static, sizes=(Size(64, 64),), default_size=Size(64, 64), max_images=2)
    request = generation(of)
    assert (request.images, request.parameters["guidance_scale"]) == (2, 5.5)
    assert generation(of, n=2, guidance_scale=5.5, size="64x64").images == 2
    assert "num_images_per_prompt doesn't match underlying model shape" in refused(of, n=1)[0]
    said, _ = refused(of, guidance_scale=5)
    assert "guidance_scale doesn't match underlying model shape" in said


def test_sizes_of_a_list_are_the_only_ones() -> None:
    of = rules(sizes=(Size(128, 64), Size(64, 128)), largest=Size(128, 128))
    assert generation(of).size == Size(128, 64)
    assert generation(of, size="64x128").size == Size(64, 128)
    assert refused(of, size="128x128")[0].startswith(
        "NPU Image Generation requested resolution 128x128 is not supported by static reshape "
        "settings"
    )
    said, param = refused(of, width=64)
    assert said == "NPU Image Generation requested width but height is missing"
    assert param == "height"


def test_the_default_size_is_within_the_bounds() -> None:
    assert generation(rules(largest=Size(36, 200))).size == Size(32, 200)
    assert generation(rules(default_size=Size(8, 16))).size == Size(8, 16)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (DrawingKind.TEXT_TO_IMAGE, "Text-to-image pipeline is not available for this model"),
        (DrawingKind.IMAGE_TO_IMAGE, "Image-to-image pipeline is not available for this model"),
        (DrawingKind.INPAINTING, "Inpainting pipeline is not available for this model"),
    ],
)
def test_a_kind_that_the_model_lacks_is_a_failed_precondition(
    kind: DrawingKind, message: str
) -> None:
    of = rules(kinds=tuple(each for each in DrawingKind if each is not kind))
    asks: dict[DrawingKind, Callable[[], ImageRequest]] = {
        DrawingKind.TEXT_TO_IMAGE: lambda: generation(of),
        DrawingKind.IMAGE_TO_IMAGE: lambda: read_edit(form(prompt="a"), of),
        DrawingKind.INPAINTING: lambda: read_edit(form(prompt="a", mask=PICTURE), of),
    }
    with pytest.raises(RequestError) as caught:
        asks[kind]()
    assert (str(caught.value), caught.value.code) == (message, Code.FAILED_PRECONDITION)


# Forms --------------------------------------------------------------------------------------------


def test_a_form_is_read_as_json_is() -> None:
    request = read_edit(
        form(
            prompt="a dog",
            n="2",
            steps="5",
            guidance_scale="3",
            strength="0.5",
            size="128x64",
            stream="true",
            partial_images="1",
            user="",
            model="m",
        ),
        rules(),
    )
    assert (request.kind, request.prompt, request.model) == (
        DrawingKind.IMAGE_TO_IMAGE,
        "a dog",
        "m",
    )
    assert (request.images, request.steps, request.size) == (2, 5, Size(128, 64))
    assert (request.parameters["strength"], request.parameters["guidance_scale"]) == (0.5, 3.0)
    assert (request.is_stream, request.partial_images) == (True, 1)
    assert request.image == PICTURE.content


def test_an_image_decides_about_its_size_and_a_mask_about_the_kind() -> None:
    request = read_edit(form(prompt="a", mask=PICTURE), rules())
    assert (request.kind, request.size) == (DrawingKind.INPAINTING, None)
    assert request.parameters["strength"] == 1.0
    assert read_edit(form(prompt="a"), rules()).parameters["strength"] == 0.8
    assert read_edit(form(prompt="a"), rules(default_size=Size(8, 8))).size == Size(8, 8)


def test_the_name_of_a_list_is_an_image_too() -> None:
    listed = MultipartForm({"prompt": ["a"]}, {"image[]": [PICTURE]})
    assert read_edit(listed, rules()).image == PICTURE.content


def test_a_variation_needs_no_prompt() -> None:
    request = read_variation(form(n="2"), rules())
    assert (request.kind, request.prompt, request.images) == (DrawingKind.IMAGE_TO_IMAGE, "", 2)


@pytest.mark.parametrize(
    ("given", "message", "param"),
    [
        (form(), "prompt field is missing in multipart body", "prompt"),
        (form(prompt=""), "prompt field is missing in multipart body", "prompt"),
        (form(None, prompt="a"), "Image field is missing in multipart body", "image"),
        (
            MultipartForm({"prompt": ["a"], "image": ["aGk="]}),
            "expected a file, got a text",
            "image",
        ),
        (
            MultipartForm({"prompt": ["a"]}, {"image[]": [PICTURE, PICTURE]}),
            "begins with one image, and 2 are given",
            "image",
        ),
        (form(FormFile("a", "", b""), prompt="a"), "the file is empty", "image"),
        (
            form(FormFile("a", "", bytes(20_000_001)), prompt="a"),
            "larger than 20000000 bytes",
            "image",
        ),
        (form(prompt="a", n="two"), "n field is not a int", "n"),
        (form(prompt="a", n="1.5"), "n field is not a int", "n"),
        (form(prompt="a", strength="x"), "strength field is not a float", "strength"),
        (form(prompt="a", stream="perhaps"), "expected true or false", "stream"),
        (form(prompt="a", lora_alphas="{"), "lora_alphas field must be valid JSON", "lora_alphas"),
        (form(prompt="a", lora_alphas="[]"), "lora_alphas must be an object", "lora_alphas"),
        (form(prompt="a", promt="a"), "Unhandled parameter: promt", "promt"),
        (
            MultipartForm({"prompt": ["a"]}, {"image": [PICTURE], "picture": [PICTURE]}),
            "Unhandled parameter: picture",
            "picture",
        ),
        (MultipartForm({"prompt": ["a", "b"]}, {"image": [PICTURE]}), "got 2", "prompt"),
        (form(prompt="a", steps="1", strength="0.5"), "leaves no step to make", "strength"),
        (form(prompt="a", steps="15", strength="0"), "leaves no step to make", "strength"),
    ],
)
def test_a_wrong_form_is_refused_by_name(given: MultipartForm, message: str, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_edit(given, rules())
    assert message in str(caught.value)
    assert caught.value.param == param


# Adapters -----------------------------------------------------------------------------------------

ADAPTERS = LoraAdapters(
    (LoraAdapter("ink", Path("ink"), 0.5), LoraAdapter("oil", Path("oil"), 2.0)),
    LoraMode.DYNAMIC,
    {"both": {"ink": 0.25, "oil": 0.75}},
)


@pytest.mark.parametrize(
    ("model", "wanted", "alphas"),
    [
        ("base", None, [0.0, 0.0]),
        ("base", {"oil": 1}, [0.0, 1.0]),
        ("ink", None, [0.5, 0.0]),
        ("ink", {"ink": 0.1}, [0.1, 0.0]),
        ("both", None, [0.25, 0.75]),
        ("both", {"oil": -1.5}, [0.25, -1.5]),
    ],
)
def test_the_alpha_of_the_request_counts_first(
    model: str, wanted: dict[str, float] | None, alphas: list[float]
) -> None:
    of = rules(loras=ADAPTERS)
    assert generation(of, model=model, lora_alphas=wanted).alphas == alphas


@pytest.mark.parametrize(
    ("model", "wanted", "message"),
    [
        ("ink", {"oil": 1}, "lora_alphas key 'oil' not allowed when targeting adapter 'ink'"),
        ("both", {"tar": 1}, "lora_alphas key 'tar' is not part of composite 'both'"),
        ("base", {"tar": 1}, "lora_alphas key 'tar' is not an adapter; there are: ink, oil"),
        ("ink", {"ink": "1"}, "lora_alphas value for 'ink' must be a number"),
        ("ink", {"ink": None}, "lora_alphas value for 'ink' must be a number"),
        ("ink", {"ink": True}, "lora_alphas value for 'ink' must be a number"),
        ("ink", {"ink": 1e9}, "must be from -100 to 100"),
    ],
)
def test_wrong_alphas_are_refused(model: str, wanted: dict[str, Any], message: str) -> None:
    said, param = refused(rules(loras=ADAPTERS), model=model, lora_alphas=wanted)
    assert message in said
    assert param == "lora_alphas"


def test_fixed_alphas_cannot_be_chosen() -> None:
    fixed = LoraAdapters(ADAPTERS.adapters, LoraMode.FUSE)
    assert generation(rules(loras=fixed), model="ink").alphas == []
    assert (
        "Alpha values cannot be overridden for STATIC (NPU) or FUSE mode adapters"
        in (refused(rules(loras=fixed), model="ink", lora_alphas={"ink": 1})[0])
    )


def test_a_text_alone_is_a_request() -> None:
    request = text_request("a cat", rules())
    assert (request.prompt, request.images, request.size) == ("a cat", 1, Size(64, 64))
    with pytest.raises(RequestError, match="above the maximum"):
        text_request("a" * 40_000, rules())
