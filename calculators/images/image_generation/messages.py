"""The protocol between the server and the process that draws; MessagePack.

The server sends one `Draw` or `Continue` at a time. The process answers with `DrawingBegun`, a
`DrawingProgress` for each step, a `SentImage` for each finished or partial image, and `Drawn` or
`DrawingRefused` at the end. Between two images of a request it sends `Paused`, and draws the next
one when the server says `Continue`, after other requests perhaps.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild


class DrawingKind(StrEnum):
    """A use of a model, by the library's pipelines."""

    TEXT_TO_IMAGE = "text_to_image"
    IMAGE_TO_IMAGE = "image_to_image"
    INPAINTING = "inpainting"

    @property
    def missing(self) -> str:
        """OpenVINO Model Server's text for a model that lacks it."""
        name = {
            DrawingKind.TEXT_TO_IMAGE: "Text-to-image",
            DrawingKind.IMAGE_TO_IMAGE: "Image-to-image",
            DrawingKind.INPAINTING: "Inpainting",
        }[self]
        return f"{name} pipeline is not available for this model"


class Adapter(msgspec.Struct, frozen=True, array_like=True):
    """A LoRA adapter's file, and its alpha where requests choose none."""

    path: str
    alpha: float


class Shape(msgspec.Struct, frozen=True, array_like=True):
    """The only shape to compile for. ``guidance_scale``: None for the model's default."""

    images: int
    width: int
    height: int
    guidance_scale: float | None


class DrawingLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message.

    Attributes:
        model_path: its directory.
        devices: one, or one each for text encoders, denoiser and image coder.
        properties: OpenVINO's properties.
        adapter_mode: a `LoraMode`.
        niceness: by how much other processes come first.
    """

    model_path: str
    devices: list[str]
    properties: dict[str, Any]
    shape: Shape | None = None
    adapters: list[Adapter] = []
    adapter_mode: str = "DYNAMIC"
    niceness: int = 0


class DrawingReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded.

    Attributes:
        kinds: each `Kind` that the model can be asked for.
        pipeline: the class in model_index.json, such as "StableDiffusionXLPipeline".
        width, height: the model's own size of images.
        guidance_scale: the model's default.
        strengths: the default strength by `Kind`.
        max_steps: steps that its scheduler can make; 0: unknown.
        is_consistency_model: the denoiser takes the guidance scale as an input (LCM).
    """

    kinds: list[str]
    pipeline: str
    width: int
    height: int
    guidance_scale: float
    strengths: dict[str, float]
    max_steps: int
    is_consistency_model: bool
    seconds: float


class Draw(msgspec.Struct, frozen=True, tag="draw", array_like=True):
    """Draw images.

    Attributes:
        number: repeated in every answer.
        kind: a `Kind`.
        parameters: the library's, without size and adapters.
        width, height: of the images; 0: as the given image has them.
        max_width, max_height: bounds of the size of a given image that decides about it.
        image, mask: files; empty for kinds that need none.
        output_format: "png", "jpeg" or "webp" for files in base64; "raw" for pixels.
        quality: 0 to 100, for JPEG and WebP.
        partial_images: number of images to show of unfinished steps.
        alphas: of each adapter; empty if they are fixed.
        turns: how often the library is called, each time for as many images as ``parameters`` say.
    """

    number: int
    kind: str
    prompt: str
    parameters: dict[str, Any]
    width: int
    height: int
    max_width: int = 0
    max_height: int = 0
    image: bytes = b""
    mask: bytes = b""
    output_format: str = "png"
    quality: int = 100
    partial_images: int = 0
    alphas: list[float] = []
    turns: int = 1


class Continue(msgspec.Struct, frozen=True, tag="continue", array_like=True):
    """Draw the next image of a request that has paused."""

    number: int


class CancelDrawing(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """End a drawing: at its next step, or at once if it has paused."""

    number: int


class DrawingBegun(msgspec.Struct, frozen=True, tag="begun", array_like=True):
    """The given files are read, and the library is called. ``prompt_tokens``: 0 if unknown."""

    number: int
    width: int
    height: int
    prompt_tokens: int


class DrawingGoesOn(msgspec.Struct, frozen=True, tag="working", array_like=True):
    """A sign of life during a long step."""

    number: int


class DrawingProgress(msgspec.Struct, frozen=True, tag="progress", array_like=True):
    """Steps that are done, of all of a drawing."""

    number: int
    step: int
    steps: int


class SentImage(msgspec.Struct, frozen=True, tag="image", array_like=True):
    """An image.

    Attributes:
        index: its place among the request's images.
        partial: its place among the partial images of the same place; -1: it is finished.
        data: the file in base64, or the bytes of pixels [height, width, 3].
    """

    number: int
    index: int
    partial: int
    data: bytes


class Paused(msgspec.Struct, frozen=True, tag="paused", array_like=True):
    """An image is finished, and the request has more. What was read of its files is kept."""

    number: int


class Drawn(msgspec.Struct, frozen=True, tag="drawn", array_like=True):
    """The end of a drawing. ``is_whole``: false if it was cancelled."""

    number: int
    is_whole: bool


class DrawingRefused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    """The end of a drawing that cannot be made; ``reason`` is for the client, ``code`` a `Code`."""

    number: int
    reason: str
    param: str | None = None
    code: str = "INVALID_ARGUMENT"


ToArtist = DrawingLoad | Draw | Continue | CancelDrawing | StopChild
FromArtist = (
    DrawingReady
    | LoadingPhase
    | LoadFailed
    | Log
    | DrawingBegun
    | DrawingGoesOn
    | DrawingProgress
    | SentImage
    | Paused
    | Drawn
    | DrawingRefused
)

to_artist_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToArtist)
from_artist_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromArtist)
