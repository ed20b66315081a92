"""Generators of clients, and linters, that read the server's OpenAPI document.

``python -m tests.api_fuzz.generators`` installs openapi-python-client into an environment of its
own, and generates a client; with npx it also runs openapi-typescript, Redocly's and Spectral's
linters. Exits with 1 if one of them reports an error, or leaves a part of the API out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from servers.fronts.http import HttpSettings
from servers.fronts.openapi.document import openapi_document

_PYTHON_GENERATOR: Final = "openapi-python-client"
#: What the generator says of a part that it leaves out. It reads no lines of JSON.
_LEFT_OUT: Final = re.compile(r"Unable to process|Cannot parse (?!.*application/x-jsonl)")
#: Commands of npm packages, each after the package; {document} and {folder} are filled in.
_NPM: Final = (
    ("openapi-typescript", "openapi-typescript {document} -o {folder}/api.ts"),
    ("@redocly/cli", "redocly lint {document} --format summary"),
    ("@stoplight/spectral-cli", "spectral lint {document} -r {folder}/rules.yaml -F error -D"),
)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        document = folder / "openapi.json"
        document.write_bytes(openapi_document(HttpSettings(), has_batches=True))
        findings = [*_python(folder, document), *_npm(folder, document)]
    print("\n".join(findings) or "no findings")
    return 1 if findings else 0


def _python(folder: Path, document: Path) -> Iterator[str]:
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    yield from _run([programs / "pip", "install", "--quiet", _PYTHON_GENERATOR])
    client = folder / "client"
    words = f"generate --path {document} --output-path {client} --meta none"
    yield from _run([programs / _PYTHON_GENERATOR, *words.split()], _LEFT_OUT)
    yield from _run([programs / "python", "-m", "compileall", "-q", client])


def _npm(folder: Path, document: Path) -> Iterator[str]:
    npx = shutil.which("npx")
    if npx is None:
        print("npx is not installed: its tools are left out", file=sys.stderr)
        return
    (folder / "rules.yaml").write_text('extends: ["spectral:oas"]\n')
    for package, command in _NPM:
        words = [word.format(document=document, folder=folder) for word in command.split()]
        yield from _run([npx, "--yes", f"--package={package}", "--", *words])


def _run(words: list[str | Path], warning: re.Pattern[str] | None = None) -> Iterator[str]:
    """Run a command, which finds this environment's ruff; yield its output if it fails or warns."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    if done.returncode != 0 or (warning is not None and warning.search(output)):
        yield f"{words[0]}: {output}"


if __name__ == "__main__":
    sys.exit(main())
