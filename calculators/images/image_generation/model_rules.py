"""`ModelRules`: the requests that a model of a node can answer."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from calculators.images.image_generation.messages import DrawingKind, DrawingReady
from calculators.images.image_generation.node_options import ImageGenOptions
from calculators.images.image_generation.request_members import refusal
from calculators.images.image_generation.sizes import MAX_PIXELS, SIDE_STEP, Size, listed
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code

#: A picture decides about the size of the images up to so many times the model's own sides: further
#: ones of some kilobytes would cost minutes and gigabytes.
MOST_SCALE: Final = 2
_PROMPTS: Final = frozenset({"prompt_2", "prompt_3"})
_NEGATIVES: Final = frozenset({"negative_prompt", "negative_prompt_2", "negative_prompt_3"})
#: Members about prompts that the library takes, by the beginning of the pipeline's class.
_TAKEN: Final = (
    ("StableDiffusion3", _PROMPTS | _NEGATIVES),
    ("StableDiffusionXL", frozenset({"prompt_2", "negative_prompt", "negative_prompt_2"})),
    ("StableDiffusion", frozenset({"negative_prompt"})),
    ("LatentConsistency", frozenset[str]()),
    ("Flux", frozenset({"prompt_2"})),
)


@dataclass(frozen=True, slots=True)
class ModelRules:
    """Bounds and defaults, from the node's options and the model's own facts."""

    options: ImageGenOptions
    ready: DrawingReady
    default_seed: int | None = None

    def check_kind(self, kind: DrawingKind) -> None:
        """Refuse a kind of drawing that the model lacks.

        Raises:
            RequestError: FAILED_PRECONDITION.
        """
        if kind not in self.ready.kinds:
            raise RequestError(kind.missing, code=Code.FAILED_PRECONDITION)

    def default_size(self, kind: DrawingKind) -> Size | None:
        """Return the size of a request that gives none; None: that of its image."""
        options = self.options
        if options.default_size is not None:
            return options.default_size
        own = Size(self.ready.width, self.ready.height)
        if options.sizes:
            return own if own in options.sizes else options.sizes[0]
        if kind is not DrawingKind.TEXT_TO_IMAGE:
            return None
        if own.fits(options.largest):
            return own
        return Size(*(side // SIDE_STEP * SIDE_STEP for side in options.largest))

    @property
    def largest_of_picture(self) -> Size:
        """The bounds of a size that the given picture decides; larger ones must be asked for."""
        largest, ready = self.options.largest, self.ready
        return Size(
            min(largest.width, MOST_SCALE * ready.width),
            min(largest.height, MOST_SCALE * ready.height),
        )

    def check_size(self, size: Size, param: str) -> None:
        """Refuse a size.

        Raises:
            RequestError: it is above the maximum, not offered, or cannot be drawn.
        """
        options = self.options
        if options.sizes and size not in options.sizes:
            raise refusal(
                f"NPU Image Generation requested resolution {size} is not supported by static "
                f"reshape settings; there are: {listed(options.sizes)}",
                param,
            )
        if not size.fits(options.largest) or size.width * size.height > MAX_PIXELS:
            raise refusal(
                f"{param}: {size} is above the maximum {options.largest}"
                + (f", and {MAX_PIXELS} pixels" if size.fits(options.largest) else ""),
                param,
            )
        if not size.is_drawable:
            raise refusal(f"{param}: {size}: both sides must be multiples of {SIDE_STEP}", param)

    def images(self, wanted: int | None) -> int:
        """Return the number of images to draw.

        Raises:
            RequestError: ``wanted`` is above the maximum, or not the static number.
        """
        static, most = self.options.static, self.options.max_images
        if static is not None:
            if wanted not in (None, static.images):
                raise refusal(
                    "NPU Image Generation requested num_images_per_prompt doesn't match underlying "
                    f"model shape; it is {static.images}",
                    "n",
                )
            return static.images
        if wanted is not None and wanted > most:
            raise refusal(
                f"num_images_per_prompt/n is greater than maxNumImagesPerPrompt: {most}", "n"
            )
        return wanted or 1

    def steps(self, wanted: int | None) -> int:
        """Return the number of steps.

        Raises:
            RequestError: ``wanted`` is above the maximum.
        """
        most = min(self.options.max_steps, self.ready.max_steps or self.options.max_steps)
        if wanted is None:
            return min(self.options.default_steps, most)
        if wanted > most:
            raise refusal(
                f"num_inference_steps is greater than maxNumInferenceSteps: {most}",
                "num_inference_steps",
            )
        return wanted

    def guidance(self, wanted: float | None) -> float:
        """Return the guidance scale.

        Raises:
            RequestError: ``wanted`` is negative, or not the static one.
        """
        static = self.options.static
        fixed = None if static is None else static.guidance_scale
        default = self.ready.guidance_scale if fixed is None else fixed
        if wanted is None:
            return default
        if static is not None and abs(wanted - default) > _SAME:
            raise refusal(
                "NPU Image Generation requested guidance_scale doesn't match underlying model "
                f"shape; it is {default:g}",
                "guidance_scale",
            )
        if wanted < 0:
            raise refusal("guidance_scale is less than 0", "guidance_scale")
        return wanted

    def strength(self, wanted: float | None, kind: DrawingKind, steps: int) -> float:
        """Return the strength: the part of the steps that is made.

        Raises:
            RequestError: ``wanted`` is not from 0 to 1, or no step would be left.
        """
        strength = self.ready.strengths.get(kind, 1.0) if wanted is None else wanted
        if strength > 1:
            raise refusal("strength is greater than maxStrength: 1", "strength")
        if strength < 0:
            raise refusal("strength is less than minStrength: 0", "strength")
        if kind is DrawingKind.TEXT_TO_IMAGE and strength != 1:
            raise refusal("strength must be 1 where there is no image to begin with", "strength")
        # The library crashes when it has no step to make.
        if int(_float32(steps * _float32(strength))) < 1:
            raise refusal(
                f"strength {strength:g} of {steps} num_inference_steps leaves no step to make; at "
                "least one is needed",
                "strength",
            )
        return strength

    def check_prompt_member(self, name: str, guidance: float) -> None:
        """Refuse a further prompt that the library does not take for this model.

        Raises:
            RequestError: it names the member.
        """
        pipeline = self.ready.pipeline
        taken = next((taken for begin, taken in _TAKEN if pipeline.startswith(begin)), None)
        if taken is None:
            return
        if self.ready.is_consistency_model:
            taken -= _NEGATIVES
        if name not in taken:
            raise refusal(f"{name} is not used by this model, a {pipeline}", name)
        if name in _NEGATIVES and guidance <= 1:
            raise refusal(f"{name} needs a guidance_scale above 1, and it is {guidance:g}", name)


#: Graphs have the scale as a 32-bit float.
_SAME: Final = 1e-5


def _float32(number: float) -> float:
    """Return a number as the library's 32-bit floats have it."""
    rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    return rounded
