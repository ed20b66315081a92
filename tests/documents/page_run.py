"""Pages that are followed from top to bottom: files are written, commands run, servers asked.

- A fence after a line that ends with "`NAME`:" is a file. So is one after a line that begins with
  "`NAME` has" or ends with a name in that way before a colon.
- A console fence has commands after ``$``, each with its output below it. ``...`` in the output
  stands for any text, and no output for any output.
- ``cd FOLDER`` alone is for the rest of the page.
- ``graphrt serve``, and ``graphrt`` with OVMS's flags, starts a server that runs to the end of the
  page or to the next such command. Other commands with the address of the documents ask it.
- A fence after ``<!-- not run: REASON -->`` is left out, and the reason printed.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from tests.documents.snippets import ADDRESS, asked, run_python, run_shell
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import text_of

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
_NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->\s*\Z")
_FILE: Final = re.compile(r"`([\w./-]+\.(?:py|pbtxt|json|jsonl|md|txt|toml))`[^`\n]*:\s*\Z")
#: Folders and files of a clone in which a page runs. Examples are found wherever graphrt is.
_OF_A_CLONE: Final = ("docs", "README.md")


class Step(NamedTuple):
    """One fence of a page.

    Attributes:
        file: the name of the file that it is; "" for a fence of commands.
        language: the fence's.
        text: its text.
        left_out: the reason why it does not run; "" if it does.
    """

    file: str
    language: str
    text: str
    left_out: str


def steps(page: str) -> list[Step]:
    """Return the fences of a page that are files or commands."""
    text = text_of(page)
    found = []
    for fence in _FENCE.finditer(text):
        before = text[: fence.start()]
        reason = _NOT_RUN.search(before)
        named = _FILE.search(before.rsplit("\n\n", 2)[-2] + "\n") if before else None
        name, left_out = named[1] if named else "", reason[1] if reason else ""
        found.append(Step(name, fence[1], fence[2], left_out))
    return [step for step in found if step.file or step.language in ("console", "python")]


def follow(page: str, folder: Path) -> None:
    """Run a page in a folder, with the folders of a clone beside its files.

    Raises:
        AssertionError: a command failed, or printed something else than the page shows.
    """
    for name in _OF_A_CLONE:
        (folder / name).symlink_to(ROOT / name)
    with ExitStack() as servers:
        server: Serving | None = None
        for step in steps(page):
            if step.left_out:
                print(f"{page}: not run, because {step.left_out}:\n{step.text}")
            elif step.file:
                file = folder / step.file
                file.parent.mkdir(exist_ok=True)
                file.write_text(step.text, encoding="utf-8")
            elif step.language == "python":
                (folder / "snippet.py").write_text(step.text, encoding="utf-8")
                run_python("snippet.py", folder)
            else:
                for command, expected in _commands(step.text):
                    if command.startswith("cd ") and "&" not in command:
                        folder = folder / command.removeprefix("cd ")
                        continue
                    if _is_server(command):
                        servers.close()
                        server = servers.enter_context(_started(command, folder))
                        server.wait_until_serving()
                        continue
                    if ADDRESS in command:
                        assert server is not None, f"{page}: no server runs for {command}"
                        printed = asked(command, server, folder)
                    else:
                        printed = _printed(command, folder)
                    check_output(command, printed, expected)


def check_output(command: str, printed: str, expected: str) -> None:
    """Check printed text against what a page shows, in which ``...`` is any text."""
    if not expected.strip():
        return
    parts = [re.escape(part) for part in expected.strip().split("...")]
    pattern = ".*".join(parts)
    assert re.fullmatch(pattern, printed.strip(), re.S), (
        f"{command}\nprinted:\n{printed}\nand the page shows:\n{expected}"
    )


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console fence with the output below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def _printed(command: str, folder: Path) -> str:
    """Run a command, in a fork if no shell is needed: that is faster."""
    if command.startswith("graphrt ") and not re.search(r"[|<>&;$]", command):
        done = graphrt(*shlex.split(command)[1:], cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run_shell(re.sub(r"(?<!\S)python(?= )", sys.executable, command), folder)


def _is_server(command: str) -> bool:
    return command.startswith(("graphrt serve ", "graphrt --"))


def _started(command: str, folder: Path) -> Serving:
    words = shlex.split(command)[1:]
    if words[0] == "serve":
        words = words[1:]
    if "--rest_port" in words:
        at = words.index("--rest_port")
        del words[at : at + 2]
    return Serving(folder, *words, calculators=())
