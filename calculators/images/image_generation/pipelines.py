"""`Pipelines`: the library's pipelines of one model, in the process that draws."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import openvino as ov
import openvino_genai as genai
from numpy.typing import NDArray

from calculators.images.image_generation.messages import DrawingKind, DrawingLoad, DrawingReady
from calculators.images.image_generation.model_directory import DENOISERS, MODEL_INDEX
from calculators.kit.child_process.answering_process import Report
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadingPhase
from calculators.kit.model_json import read_model_json

#: Called after each step with the number of steps done, of all, and the library's latent image.
#: Returns True to end the drawing. An exception ends it too. The library calls it in another thread
#: while it goes on, and leaves out the calls that are still due when the last step is made.
OnStep = Callable[[int, int, Any], bool]

#: Images, uint8: [n, height, width, 3].
Pixels = NDArray[np.uint8]

_CLASSES: Final = {
    DrawingKind.INPAINTING: genai.InpaintingPipeline,
    DrawingKind.IMAGE_TO_IMAGE: genai.Image2ImagePipeline,
    DrawingKind.TEXT_TO_IMAGE: genai.Text2ImagePipeline,
}
_MODES: Final = {
    "DYNAMIC": genai.AdapterConfig.Mode.MODE_DYNAMIC,
    "STATIC": genai.AdapterConfig.Mode.MODE_STATIC,
    "FUSE": genai.AdapterConfig.Mode.MODE_FUSE,
}
#: Sides of an image for models that do not say.
_USUAL_SIDE: Final = 512


class Pipelines:
    """The pipelines that a model has. They share weights, and so does their work: one at a time.

    An inpainting pipeline is opened first, and the other kinds are made of it; kinds that cannot be
    made so are opened from the disk.
    """

    def __init__(self, load: DrawingLoad, report: Report) -> None:
        """Open and compile; ``report`` gets the phases.

        Raises:
            RuntimeError: no pipeline can be opened; the text is the library's.
        """
        start = time.monotonic()
        self._load = load
        self._directory = Path(load.model_path)
        self._adapters = [genai.Adapter(each.path) for each in load.adapters]
        report(LoadingPhase("compiling the model", 0.1, 0.9))
        self._pipelines = self._open()
        report(LoadingPhase("loading the tokenizer", 0.9, 1.0))
        self._tokenizer = _tokenizer(self._directory / "tokenizer")
        self._most_tokens = _most_tokens(self._directory / "tokenizer" / "tokenizer_config.json")
        self.seconds = time.monotonic() - start

    def ready(self) -> DrawingReady:
        """Return the facts of the model for the server."""
        config = next(iter(self._pipelines.values())).get_generation_config()
        denoiser: Mapping[str, Any] = {}
        for name in DENOISERS:
            denoiser = denoiser or read_model_json(self._directory / name / "config.json")
        scheduler = read_model_json(self._directory / "scheduler" / "scheduler_config.json")
        width, height = config.width, config.height
        if width <= 0 or height <= 0:
            width, height = _own_size(
                denoiser, read_model_json(self._directory / "vae_decoder/config.json")
            )
        return DrawingReady(
            kinds=[kind for kind in DrawingKind if kind in self._pipelines],
            pipeline=str(read_model_json(self._directory / MODEL_INDEX).get("_class_name", "")),
            width=width,
            height=height,
            guidance_scale=config.guidance_scale,
            strengths={
                kind: pipeline.get_generation_config().strength
                for kind, pipeline in self._pipelines.items()
            },
            max_steps=int(scheduler.get("num_train_timesteps", 0)),
            is_consistency_model=bool(denoiser.get("time_cond_proj_dim")),
            seconds=self.seconds,
        )

    def count_tokens(self, prompt: str) -> int:
        """Return the number of a prompt's tokens that the first text encoder sees; 0: unknown.

        What is beyond the encoder's length is cut off.
        """
        if self._tokenizer is None:
            return 0
        tokens = int(self._tokenizer.encode(prompt).attention_mask.data.sum())
        return int(min(tokens, self._most_tokens))

    def random_numbers(self, seed: int) -> Any:
        """Return a source of noise that is the parameter ``generator`` of several images."""
        return genai.CppStdGenerator(seed)

    def generate(
        self,
        kind: DrawingKind,
        prompt: str,
        parameters: Mapping[str, Any],
        *,
        image: Pixels | None,
        mask: Pixels | None,
        alphas: list[float],
        on_step: OnStep,
    ) -> Pixels | None:
        """Draw; None if ``on_step`` has ended it.

        Args:
            parameters: the library's.
            image, mask: [1, height, width, 3], for kinds that take them.
            alphas: of each adapter; [] leaves them as they were compiled.

        Raises:
            RuntimeError: the library's.
            Exception: raised by ``on_step``.
        """
        failures: list[Exception] = []

        def callback(step: int, steps: int, latent: Any) -> bool:
            # An exception in here would end the process.
            try:
                return on_step(step + 1, steps, latent)
            except Exception as error:
                failures.append(error)
                return True

        arguments = {**parameters, "callback": callback}
        if alphas:
            pairs = zip(self._adapters, alphas, strict=True)
            arguments["adapters"] = genai.AdapterConfig(
                [(adapter, alpha) for adapter, alpha in pairs if alpha]
            )
        given = [ov.Tensor(each) for each in (image, mask) if each is not None]
        images = self._pipelines[kind].generate(prompt, *given, **arguments)
        if failures:
            raise failures[0]
        return _copied(images)

    def decode(self, kind: DrawingKind, latent: Any) -> Pixels | None:
        """Return the images of unfinished latent ones, inside `OnStep`."""
        return _copied(self._pipelines[kind].decode(latent))

    def _open(self) -> dict[DrawingKind, Any]:
        found: dict[DrawingKind, Any] = {}
        reasons: list[str] = []
        for kind, pipeline in _CLASSES.items():
            try:
                found[kind] = self._derived(pipeline, found) or self._from_disk(pipeline)
            except RuntimeError as error:
                reasons.append(library_reason(error))
        if not found:
            raise RuntimeError(reasons[-1])
        return found

    def _derived(self, pipeline: Any, found: Mapping[DrawingKind, Any]) -> Any:
        """Return a pipeline with the weights of another; None if there is none that fits."""
        for other in reversed(list(found.values())):
            try:
                return pipeline(other)
            except (RuntimeError, TypeError):
                continue
        return None

    def _from_disk(self, pipeline: Any) -> Any:
        made = pipeline(self._directory)
        shape = self._load.shape
        if shape is not None:
            guidance = shape.guidance_scale
            if guidance is None:
                guidance = made.get_generation_config().guidance_scale
            made.reshape(shape.images, shape.height, shape.width, guidance)
        properties = dict(self._load.properties)
        if self._adapters:
            alphas = (each.alpha for each in self._load.adapters)
            properties["adapters"] = genai.AdapterConfig(
                list(zip(self._adapters, alphas, strict=True)), _MODES[self._load.adapter_mode]
            )
        made.compile(*self._load.devices, **properties)
        return made


def _copied(tensor: Any) -> Pixels | None:
    """Return the images of a tensor, which the next call writes over; None if it is empty."""
    images: Pixels = np.array(tensor.data, copy=True)
    return images if images.ndim == 4 and images.size else None


def _tokenizer(directory: Path) -> Any:
    """Return the tokenizer of the first text encoder; None if it has no files of its own."""
    try:
        return genai.Tokenizer(directory) if directory.is_dir() else None
    except RuntimeError:
        return None  # it only counts


def _most_tokens(file: Path) -> float:
    """Return the length of the first text encoder, from the config of its tokenizer."""
    most = read_model_json(file).get("model_max_length")
    return most if isinstance(most, int | float) and most > 0 else math.inf


def _own_size(denoiser: Mapping[str, Any], coder: Mapping[str, Any]) -> tuple[int, int]:
    """Return width and height of a model's own images, from the configs of its parts."""
    channels = coder.get("block_out_channels")
    scale = 2 ** (len(channels) - 1) if isinstance(channels, list) and channels else 8
    match denoiser.get("sample_size"):
        case int(side) if side > 0:
            return side * scale, side * scale
        case [int(height), int(width)] if height > 0 and width > 0:
            return width * scale, height * scale
        case _:
            return _USUAL_SIDE, _USUAL_SIDE
