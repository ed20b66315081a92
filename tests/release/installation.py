"""graphrt as installed from a wheel, in an environment of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.checkout import ROOT

#: Variables that would let an installation find the checkout.
_OF_THIS_PROCESS: Final = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


def build(target: str, directory: Path, source: Path = ROOT) -> Path:
    """Build a ``wheel`` or an ``sdist`` with hatchling, without the network; return its path."""
    run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)], source)
    (built,) = directory.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def unpacked(sdist: Path, directory: Path) -> Path:
    """Unpack an sdist; return the directory in it."""
    shutil.unpack_archive(sdist, directory, filter="data")
    (source,) = directory.iterdir()
    return source


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OF_THIS_PROCESS}


def run(words: list[str], folder: Path) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(
        words, cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Installation:
    """A virtual environment with graphrt in it."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        """Make the environment, without any package in it."""
        self.directory = directory
        run([python, "-m", "venv", "--without-pip", str(directory)], directory.parent)
        self.python = str(directory / "bin" / "python")
        self.command = str(directory / "bin" / "graphrt")

    def install(self, *words: str) -> None:
        """Install with this process's pip, as `pip install WORDS` would."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run([*pip, "--python", self.python, "install", *words], self.directory)

    def borrow_packages(self) -> None:
        """Let the environment find the packages of this one, behind its own.

        graphrt itself is not among them: the paths of editable installations are in .pth files,
        which Python reads in an environment's own directory only.
        """
        place = run([self.python, "-c", "import site; print(site.getsitepackages()[0])"], Path("/"))
        lenders = [path for path in sys.path if Path(path).name == "site-packages"]
        Path(place.strip(), "borrowed.pth").write_text("".join(f"{path}\n" for path in lenders))

    def graphrt(self, *words: str, folder: Path) -> str:
        return run([self.command, *words], folder)

    @contextmanager
    def serving(self, *words: str, folder: Path) -> Iterator[InstalledServer]:
        """Run `graphrt serve WORDS` on a free port."""
        process = subprocess.Popen(
            [self.command, "serve", *words, "--rest_port", "auto"],
            cwd=folder,
            env=clean_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            log = []
            for line in process.stderr:
                log.append(line)
                if found := re.search(r"  curl .*http://127\.0\.0\.1:(\d+)/", line):
                    yield InstalledServer(int(found[1]))
                    break
            else:
                raise AssertionError(f"it does not serve:\n{''.join(log)}")
        finally:
            process.terminate()
            process.communicate()


class InstalledServer:
    """A server on a port of this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def post(self, path: str, body: Any) -> Any:
        """Send a request that must succeed; return the answer's JSON."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port)) as connection:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(body), headers)
            with connection.getresponse() as response:
                text = response.read()
                assert response.status == 200, text
                return json.loads(text)

    def chat(self, model: str, text: str) -> str:
        """Return the answer of a language model to one message."""
        body = {"model": model, "messages": [{"role": "user", "content": text}]}
        content = self.post("/v3/chat/completions", body)["choices"][0]["message"]["content"]
        assert isinstance(content, str)
        return content
