"""The converting process: ``python -m calculators.kit.checkpoints.process DESCRIPTOR PARENT``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calculators.kit.checkpoints.messages import ConversionLoad, Converted, to_converter_decoder
from calculators.kit.child_process.answering_process import Report, run
from calculators.kit.child_process.lean_openvino import leave_out_converter
from calculators.kit.child_process.messages import LoadFailed


def load(message: ConversionLoad, report: Report) -> tuple[Converted, Callable[[Any], Any]]:
    """Convert the file."""
    # Imported here: the library takes long to load, and its import may fail.
    from calculators.kit.checkpoints.gguf_converter import convert
    from calculators.kit.checkpoints.packed import OffsetForm

    gguf, directory = Path(message.model_path), Path(message.directory)
    form = OffsetForm(message.form)
    convert(gguf, directory, form, message.size, report, batches=message.batches)
    return Converted(), lambda question: LoadFailed("it has no questions")


if __name__ == "__main__":
    leave_out_converter()
    # Without the library's destructors, which are slow.
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_converter_decoder.decode, ConversionLoad, load, LoadFailed))
