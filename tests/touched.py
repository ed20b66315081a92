"""Test files that a change concerns, for ``make touched``.

A change is what differs from the commit at which the branch left ``main``, committed or not. It
concerns the test files

- of its rooms: ``calculators/speech`` is tested in ``tests/calculators/speech``;
- that import a module that it changes, themselves or through other modules of ``tests``;
- below a ``conftest.py`` that it changes;
- of documents and of the architecture if it changes a page.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path, PurePosixPath
from typing import Final

from tests.support.checkout import ROOT

_MAIN: Final = "main"
#: Folders whose rooms are one level below.
_OF_ROOMS: Final = frozenset({"calculators", "servers"})
_PAGES: Final = ("tests/documents", "tests/architecture")


class Change:
    """The paths that differ, from the root of the checkout."""

    def __init__(self, paths: frozenset[str]) -> None:
        self.paths = paths
        self._modules = frozenset(map(_module_of, paths)) - {""}
        self._folders = frozenset(folder for path in paths for folder in _folders_of(path))

    def concerns(self, file: Path, imported: frozenset[str]) -> bool:
        """Return True if a test file is concerned.

        Arguments:
            file: A path below the root of the checkout.
            imported: The modules, and members of modules, that the file imports.
        """
        name = file.relative_to(ROOT).as_posix()
        if name in self.paths or any(name.startswith(f"{each}/") for each in self._folders):
            return True
        modules = self._modules
        return any(each in modules or each.rpartition(".")[0] in modules for each in imported)


@functools.cache
def change() -> Change:
    """Return the change of this checkout.

    Raises:
        subprocess.CalledProcessError: There is no git, or no branch `main`.
    """
    base = _git("merge-base", _MAIN, "HEAD").strip()
    changed = _git("diff", "--name-only", base)
    new = _git("ls-files", "--others", "--exclude-standard")
    return Change(frozenset(f"{changed}{new}".split()))


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def _module_of(path: str) -> str:
    """Return the name of a module, or nothing for other files."""
    if not path.endswith(".py"):
        return ""
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def _folders_of(path: str) -> tuple[str, ...]:
    """Return the folders whose tests a changed file concerns."""
    first, *parts = PurePosixPath(path).parts
    if first == "tests":
        return (str(PurePosixPath(path).parent),) if path.endswith("/conftest.py") else ()
    if first == "docs" or (not parts and path.endswith(".md")):
        return _PAGES
    if first in _OF_ROOMS and parts:
        return (f"tests/{first}/{PurePosixPath(parts[0]).stem}",)
    return (f"tests/{first}",) if parts else ()
