"""The demo model, copies of it to break, and prompts for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.checkout import ROOT

DEMO = ROOT / "examples" / "models" / "demo"
#: An option of engines within a test's process: beside other tests, the threads of one engine spin
#: while they wait for each other, for longer than they work.
ONE_THREAD = {"INFERENCE_NUM_THREADS": 1}


def copy_of_demo(folder: Path, *, without: str = "") -> Path:
    """Make a copy whose files may be replaced: it consists of links, so it costs nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in DEMO.iterdir():
        if file.is_file() and file.name != without:
            os.link(file, folder / file.name) if _same_device(folder) else shutil.copy(file, folder)
    return folder


def rewrite(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Replace a file of a copy; the original stays."""
    content = change(file.read_bytes())
    file.unlink()
    file.write_bytes(content)


def _same_device(folder: Path) -> bool:
    return folder.stat().st_dev == DEMO.stat().st_dev


def demo_tokenizer() -> Any:
    # Imported here because quick tests load no model library.
    import openvino_genai as genai

    return genai.Tokenizer(str(DEMO))


def ids_of(*ids: int) -> bytes:
    """Return token ids in the form that the engine accepts."""
    return np.array(ids, dtype=np.int64).tobytes()
