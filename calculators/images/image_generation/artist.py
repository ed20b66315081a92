"""`Artist`: the thread that draws, and its news."""

from __future__ import annotations

import base64
import io
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
from PIL import Image as Pillow

from calculators.images.image_generation.messages import (
    Draw,
    DrawingBegun,
    DrawingGoesOn,
    DrawingKind,
    DrawingProgress,
    DrawingRefused,
    Drawn,
    Paused,
    SentImage,
)
from calculators.images.image_generation.pipelines import OnStep, Pixels
from calculators.images.image_generation.sizes import Size, size_near
from calculators.images.media.decoding import open_picture, rgb_of
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import Log
from calculators.kit.memory import return_free_memory

_WHITE: Final = 255


def read_image(data: bytes) -> Any:
    """Return the picture of a file, RGB, on white where it is transparent.

    Raises:
        ValueError: it is not a picture, is broken, or too large; the text is for the client.
    """
    return rgb_of(open_picture(data))


def read_mask(data: bytes) -> Any:
    """Return the mask of a file: white where the image is to be redrawn.

    A picture with transparent pixels is a mask as in OpenAI's API: these pixels are redrawn.
    Any other is a mask as the library has it: white pixels are.

    Raises:
        ValueError: as `read_image`.
    """
    picture = open_picture(data)
    if picture.has_transparency_data:
        alpha = np.asarray(picture.convert("RGBA").getchannel("A"))
        if alpha.min() < _WHITE:
            return Pillow.fromarray(_WHITE - alpha)
    return rgb_of(picture).convert("L")


def pixels_of(picture: Any, size: Size, *, is_mask: bool = False) -> Pixels:
    """Return a picture as the library takes it: [1, height, width, 3], scaled to ``size``."""
    if picture.size != tuple(size):
        # A blended edge of a mask would be neither kept nor drawn.
        how = Pillow.Resampling.NEAREST if is_mask else Pillow.Resampling.LANCZOS
        picture = picture.resize(tuple(size), how)
    return np.asarray(picture.convert("RGB"), np.uint8)[np.newaxis].copy()


def write_image(pixels: Pixels, output_format: str, quality: int) -> bytes:
    """Return a file in base64.

    Args:
        pixels: [height, width, 3]
        output_format: "png", "jpeg" or "webp"; "raw" returns the bytes of the pixels.
        quality: 0 to 100, for JPEG and WebP.
    """
    if output_format == "raw":
        return pixels.tobytes()
    file = io.BytesIO()
    picture = Pillow.fromarray(pixels)
    match output_format:
        case "jpeg":
            # Pillow takes 0 for its default.
            picture.save(file, "JPEG", quality=max(quality, 1))
        case "webp":
            picture.save(file, "WEBP", quality=quality)
        case _:
            picture.save(file, "PNG")
    return base64.b64encode(file.getbuffer())


#: Seconds of one step for which the process reports that it works. After that the server judges its
#: silence.
PATIENCE: Final = 900.0

_LOGGER: Final = "graphrt.image_generation"


class Library(Protocol):
    """Draws one request at a time; see
    `calculators.images.image_generation.pipelines.Pipelines`.
    """

    def count_tokens(self, prompt: str) -> int: ...

    def random_numbers(self, seed: int) -> Any: ...

    def generate(
        self,
        kind: DrawingKind,
        prompt: str,
        parameters: dict[str, Any],
        *,
        image: Pixels | None,
        mask: Pixels | None,
        alphas: list[float],
        on_step: OnStep,
    ) -> Pixels | None: ...

    def decode(self, kind: DrawingKind, latent: Any) -> Pixels | None: ...


class _Given(NamedTuple):
    """The images of a request as the library takes them, and the size to draw in."""

    image: Pixels | None
    mask: Pixels | None
    size: Size


class _Unreadable(Exception):
    """A given image cannot be read. ``param``: its member of the request."""

    def __init__(self, reason: str, param: str) -> None:
        super().__init__(reason)
        self.param = param


@dataclass(slots=True)
class _Drawing:
    """A drawing under way, or one that has paused.

    Attributes:
        moved_at: the time of its last news.
        turns: turns that are over.
        given: what was read of its files, from the first turn on.
        random: the source of noise, if there are several turns. As it goes on from one image to the
            next, they equal a batch's images where the model's scheduler needs noise only to begin.
    """

    draw: Draw
    moved_at: float = 0.0
    is_cancelled: bool = False
    turns: int = 0
    given: _Given | None = None
    random: Any = None


class Artist:
    """Draws one image after the other in a thread of its own."""

    def __init__(
        self,
        library: Library,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``wake`` is called, in any thread, when there is news."""
        self._library = library
        self._wake = wake
        self._clock = clock
        self._changed = Condition()
        # Guarded by the lock of the condition.
        self._waiting: list[_Drawing] = []
        self._paused: dict[int, _Drawing] = {}
        self._drawing: _Drawing | None = None
        self._news: list[msgspec.Struct] = []
        # The library draws in one call of minutes: in the process's main thread it could not be
        # cancelled.
        Thread(target=self._work, daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """True if a request is being drawn or waits."""
        with self._changed:
            return self._drawing is not None or bool(self._waiting)

    def begin(self, draw: Draw) -> None:
        """Draw the first image of a request when those before it are done."""
        self._put(_Drawing(draw))

    def go_on(self, number: int) -> None:
        """Draw the next image of a request that has paused."""
        with self._changed:
            drawing = self._paused.pop(number, None)
        if drawing is not None:
            self._put(drawing)

    def _put(self, drawing: _Drawing) -> None:
        with self._changed:
            self._waiting.append(drawing)
            self._changed.notify()

    def cancel(self, number: int) -> None:
        """End a drawing with its next step, or at once if it has paused."""
        with self._changed:
            if self._drawing is not None and self._drawing.draw.number == number:
                self._drawing.is_cancelled = True
                return
            self._paused.pop(number, None)
            for drawing in self._waiting:
                if drawing.draw.number == number:
                    self._waiting.remove(drawing)
                    self._news.append(Drawn(number, False))
                    break

    def take_news(self) -> list[msgspec.Struct]:
        """Return the messages for the server since the last call, at least a sign of life."""
        with self._changed:
            news, self._news = self._news, []
            drawing = self._drawing
            if not news and drawing and self._clock() - drawing.moved_at < PATIENCE:
                news.append(DrawingGoesOn(drawing.draw.number))
            return news

    # The thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                self._drawing = drawing = self._waiting.pop(0)
                drawing.moved_at = self._clock()
            end = self._draw(drawing)
            with self._changed:
                self._drawing = None
                if isinstance(end, Paused) and not drawing.is_cancelled:
                    self._paused[drawing.draw.number] = drawing
            del drawing
            self._report(end)
            return_free_memory()  # pictures and noise are large

    def _draw(self, drawing: _Drawing) -> Paused | Drawn | DrawingRefused:
        draw = drawing.draw
        try:
            if drawing.given is None:
                drawing.given = _read(draw)
            return self._generate(drawing, drawing.given)
        except _Unreadable as error:
            return DrawingRefused(draw.number, f"Image parsing failed: {error}", error.param)
        except MemoryError:
            return DrawingRefused(
                draw.number, "the images need too much memory", "size", "RESOURCE_EXHAUSTED"
            )
        except Exception as error:
            self._report(Log(logging.ERROR, _LOGGER, f"a drawing failed: {library_reason(error)}"))
            return DrawingRefused(draw.number, _failed(draw), code="INTERNAL")

    def _generate(self, drawing: _Drawing, given: _Given) -> Paused | Drawn:
        """Draw the images of one turn."""
        draw = drawing.draw
        size = given.size
        kind = DrawingKind(draw.kind)
        parameters = {**draw.parameters, "width": size.width, "height": size.height}
        if not drawing.turns:
            tokens = self._library.count_tokens(draw.prompt)
            self._report(DrawingBegun(draw.number, size.width, size.height, tokens))
            if draw.turns > 1:
                # One generator goes on from image to image: with DDIM the images equal a batch's,
                # bit by bit (decision 0093).
                drawing.random = self._library.random_numbers(parameters["rng_seed"])
        if drawing.random is not None:
            del parameters["rng_seed"]
            parameters["generator"] = drawing.random
        first_image = drawing.turns * parameters["num_images_per_prompt"]
        shown = done = 0
        all_steps = draw.parameters["num_inference_steps"]

        def report_step(step: int) -> None:
            whole = drawing.turns * all_steps + step
            self._report(DrawingProgress(draw.number, whole, draw.turns * all_steps))

        def on_step(step: int, steps: int, latent: Any) -> bool:
            nonlocal shown, done, all_steps
            if drawing.is_cancelled:
                return True
            done, all_steps = step, steps
            report_step(step)
            if step < steps and step >= _next_shown(steps, shown, draw.partial_images):
                images = self._library.decode(kind, latent)
                if images is not None:
                    self._send(draw, images, shown, first_image)
                shown += 1
            return drawing.is_cancelled

        images = None
        if not drawing.is_cancelled:
            images = self._library.generate(
                kind,
                draw.prompt,
                parameters,
                image=given.image,
                mask=given.mask,
                alphas=draw.alphas,
                on_step=on_step,
            )
        if images is None or drawing.is_cancelled:
            return Drawn(draw.number, False)
        if done < all_steps:
            report_step(all_steps)
        self._send(draw, images, -1, first_image)
        drawing.turns += 1
        # A turn is an image. A step cannot be one: the library's callback runs in a thread of its
        # own while the pipeline goes on (decision 0093).
        return Drawn(draw.number, True) if drawing.turns >= draw.turns else Paused(draw.number)

    def _send(self, draw: Draw, images: Pixels, partial: int, first_image: int) -> None:
        for index, image in enumerate(images, first_image):
            data = write_image(image, draw.output_format, draw.quality)
            self._report(SentImage(draw.number, index, partial, data))

    def _report(self, message: msgspec.Struct) -> None:
        with self._changed:
            self._news.append(message)
            if self._drawing is not None:
                self._drawing.moved_at = self._clock()
        self._wake()


def _read(draw: Draw) -> _Given:
    """Read the given files, and find the size to draw in.

    Raises:
        _Unreadable: a file is not a picture, is broken or too large.
    """
    image = _opened(read_image, draw.image, "image")
    mask = _opened(read_mask, draw.mask, "mask")
    size = Size(draw.width, draw.height)
    if image is not None and not (draw.width and draw.height):
        width, height = image.size
        size = size_near(width, height, Size(draw.max_width, draw.max_height))
    return _Given(
        None if image is None else pixels_of(image, size),
        None if mask is None else pixels_of(mask, size, is_mask=True),
        size,
    )


def _opened(read: Callable[[bytes], Any], data: bytes, param: str) -> Any:
    if not data:
        return None
    try:
        return read(data)
    except ValueError as error:
        raise _Unreadable(str(error), param) from None


def _next_shown(steps: int, shown: int, partial_images: int) -> float:
    """Return the step after which the next partial image is shown; all are spread evenly."""
    if shown >= partial_images:
        return float("inf")
    return steps * (shown + 1) / (partial_images + 1)


def _failed(draw: Draw) -> str:
    """Return OpenVINO Model Server's text for a failure of the library."""
    if draw.kind == DrawingKind.INPAINTING:
        return "Error during inpainting generation"
    return "Error during images generation"
