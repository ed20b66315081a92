"""``python -m examples.models.counter_making``: make the model, and export it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from .whisper import save_whisper

MODEL = Path(__file__).resolve().parent.parent / "counter"


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the model that counts.")
    parser.add_argument("--model", type=Path, default=MODEL, help="where it goes")
    target = parser.parse_args().model
    with tempfile.TemporaryDirectory() as folder:
        save_whisper(Path(folder))
        exporter = Path(sys.executable).with_name("optimum-cli")
        task = ("--task", "automatic-speech-recognition-with-past")
        words = ("--model", folder, *task, "--weight-format", "fp16", str(target))
        subprocess.run([str(exporter), "export", "openvino", *words], check=True)


if __name__ == "__main__":
    main()
