"""`ImageSettings`: the operator's settings for all image models of a server."""

from __future__ import annotations

from dataclasses import dataclass

from calculators.kit.settings.declaration import RUNNING, option
from calculators.kit.settings.value_types import count, count_or_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """Flags of image models."""

    image_queue_limit: int = option(
        16,
        "requests for images that wait for one process; more get 503; default {default}",
        group=RUNNING,
        metavar="N",
        reads=count,
    )
    image_seed: int | None = option(
        None,
        "the seed of requests for images that name none; default: a random one for each, which the "
        "answer has; 42 as OpenVINO Model Server",
        group=RUNNING,
        metavar="N",
        reads=count_or_zero,
    )
