"""A program named optimum-cli in place of the exporter, which takes gigabytes to install.

It is a real process that prints, fails, hangs and dies as the real one may; the model that it
"exports" is the example model.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.calculators.llm.demo_model import DEMO

_PROGRAM = """\
#!{python}
import json, os, pathlib, shutil, signal, subprocess, sys, time

place = pathlib.Path({place!r})
words = sys.argv[1:]
if "--help" in words:
    print("  --weight-format {{fp32,fp16,int8,int4,mxfp4,nf4,cb4}}")
    sys.exit()
source, target = pathlib.Path(words[words.index("--model") + 1]), pathlib.Path(words[-1])
with (place / "calls").open("a") as calls:
    facts = dict(words=words, source=str(source), offline=os.environ.get("HF_HUB_OFFLINE"))
    calls.write(json.dumps(facts) + "\\n")
assert any(source.glob("*.safetensors"))
print("loading weights\\r 50%|#####     | 1/2\\r100%|##########| 2/2", flush=True)
target.mkdir()
(target / "openvino_model.bin").write_bytes(b"the first half")
match (place / "behaviour").read_text():
    case "fails":
        print("Traceback (most recent call last):", file=sys.stderr)
        print('  File "secret.py", line 1, in main', file=sys.stderr)
        print("    raise KeyError(model_type)", file=sys.stderr)
        sys.exit("KeyError: no such \\x1b[31marchitecture")
    case "explains at length":
        print("Traceback (most recent call last):\\n  File\\nValueError: wrong size of", flush=True)
        sys.exit("\\n".join(f"layer {{number}}" for number in range(20)))
    case "needs code":
        sys.exit("ValueError: please set the option `trust_remote_code=True` for this model")
    case "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    case "writes nothing":
        sys.exit()
    case "hangs":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        written = place / "pids.part"
        written.write_text(f"{{os.getpid()}} {{child.pid}}")
        written.rename(place / "pids")
        time.sleep(1000)
    case "changes the source":
        (source / "model.safetensors").write_bytes(b"other weights")
for file in pathlib.Path({demo!r}).iterdir():
    if file.is_file() and file.name != "graph.pbtxt":
        shutil.copy(file, target)
"""


class ExporterStub:
    """The program in a directory ``bin``, and what it was called with."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "bin"
        self.bin.mkdir(parents=True)
        program = self.bin / "optimum-cli"
        program.write_text(
            _PROGRAM.format(python=sys.executable, place=str(place), demo=str(DEMO)),
            encoding="utf-8",
        )
        program.chmod(0o755)
        self.behave("exports")

    @property
    def path(self) -> str:
        """The value of PATH with which the program is found."""
        return f"{self.bin}{os.pathsep}{os.environ['PATH']}"

    def behave(self, how: str) -> None:
        """Choose the program's behaviour, one of the cases in it."""
        (self.place / "behaviour").write_text(how)

    def has_version(self, number: str) -> None:
        """Let the program's environment show a version of optimum-intel."""
        packages = self.place / "lib" / "python3.11" / "site-packages"
        packages.mkdir(parents=True, exist_ok=True)
        for each in packages.iterdir():
            each.rmdir()
        (packages / f"optimum_intel-{number}.dist-info").mkdir()

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The arguments of each call so far, and what it found."""
        file = self.place / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def pids(self) -> list[int] | None:
        """The hanging program and its child, once both run."""
        file = self.place / "pids"
        return [int(word) for word in file.read_text().split()] if file.exists() else None


def make_source(directory: Path, architecture: str = "LlamaForCausalLM") -> Path:
    """Write the files by which a model of safetensors is recognized, with weights of nothing."""
    directory.mkdir(parents=True)
    for name, content in source_files(architecture).items():
        (directory / name).write_bytes(content)
    return directory


def source_files(architecture: str = "LlamaForCausalLM") -> dict[str, bytes]:
    """Return the contents of such a model by names of files."""
    config = json.dumps({"architectures": [architecture], "model_type": "llama"})
    return {
        "config.json": config.encode(),
        "model.safetensors": b"\x02\0\0\0\0\0\0\0{}" + b"weights" * 1000,
        "LICENSE": b"free to use\n",
        "model.safetensors.index.json": b"{}",
    }
