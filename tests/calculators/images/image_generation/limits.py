"""The family's limits, as ``docs/limits.md`` has them."""

from __future__ import annotations

from typing import Final

from calculators.images.image_generation import model_rules
from calculators.images.image_generation import servable as drawing
from calculators.images.image_generation.image_settings import ImageSettings

LIMITS: Final = (
    f"{model_rules.MOST_SCALE} times the sides of the model's own size, and `max_resolution`",
    f"{drawing.MORE} times the usual pixels, and pixels times steps; "
    f"{drawing.IDLE_SECONDS:g} s, {drawing.CANCEL_SECONDS:g} s; "
    f"{ImageSettings().image_queue_limit} (`--image_queue_limit`)",
)
