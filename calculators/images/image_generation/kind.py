"""`Kind`: the three ways to make an image."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """A use of a model, by the library's pipelines."""

    TEXT_TO_IMAGE = "text_to_image"
    IMAGE_TO_IMAGE = "image_to_image"
    INPAINTING = "inpainting"

    @property
    def missing(self) -> str:
        """OpenVINO Model Server's text for a model that lacks it."""
        name = {
            Kind.TEXT_TO_IMAGE: "Text-to-image",
            Kind.IMAGE_TO_IMAGE: "Image-to-image",
            Kind.INPAINTING: "Inpainting",
        }[self]
        return f"{name} pipeline is not available for this model"
