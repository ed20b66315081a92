"""Exports the trained checkpoint as the files that a server needs."""

from __future__ import annotations

from pathlib import Path

from ..training.export import export as export_model
from .patches import FRAMES, LEAST, MERGE, MOST, PATCH


def export(checkpoint: Path, target: Path) -> None:
    """Write the files of ``target`` again, with fp16 weights; other files in it stay."""
    more = {"preprocessor_config.json": _preprocessing()}
    export_model(checkpoint, target, task="image-text-to-text", more=more)


def _preprocessing() -> dict[str, object]:
    """Return what Qwen2VLImageProcessor would write: every picture is made small."""
    return {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "Qwen2VLImageProcessor",
        "image_std": [0.5, 0.5, 0.5],
        "max_pixels": MOST,
        "merge_size": MERGE,
        "min_pixels": LEAST,
        "patch_size": PATCH,
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": MOST, "shortest_edge": LEAST},
        "temporal_patch_size": FRAMES,
    }
