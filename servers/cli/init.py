"""`graphrt init`: make a project to begin with."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from calculators.kit.examples import examples_directory
from servers import NAME
from servers.cli.arguments import KINDS, ProjectKind
from servers.cli.messages import CommandFailed

#: As names of Python distributions; all of them can be names of models, too.
_PROJECT_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_LONGEST_NAME: Final = 64
#: In the files of a template: the name, and the name as an identifier of Python.
_AS_NAME: Final = b"project-name"
_AS_IDENTIFIER: Final = b"project_name"
#: Files that tests and git leave in a directory. `git init` may come before `graphrt init`.
_CACHES: Final = frozenset({"__pycache__", ".pytest_cache"})
_NOT_IN_THE_WAY: Final = frozenset({".git"})
#: The most entries of a directory that an error names.
_SHOWN: Final = 5


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    target = Path(args.directory)
    name = _checked_name(args.name or Path(os.path.abspath(target)).name)
    kind = KINDS[args.kind]
    template, models = _sources(args.kind, kind)
    try:
        check_target(target)
        with staged(target) as project:
            copy_files(template, project, name=name)
            for model in models:
                copy_files(model, project / "models" / model.name)
            publish(project, target)
    except OSError as error:
        place = error.filename2 or error.filename or target
        raise CommandFailed(f"{place}: {error.strerror or error}; nothing was made") from error
    directory = shlex.quote(args.directory)
    print(
        f"{args.directory}: {kind.summary}\n\nnext:\n  cd {directory}\n"
        f'  pip install -e ".[test]"\n  python -m pytest\n  graphrt serve config.json\n\n'
        f"README.md says how to ask it."
    )
    return 0


def _checked_name(name: str) -> str:
    """Return a project's name.

    Raises:
        CommandFailed: it cannot be one.
    """
    if not _PROJECT_NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise CommandFailed(
            f'"{name}" cannot be the name of a project: it begins with a letter, and has letters, '
            f"digits, - and _ after it, at most {_LONGEST_NAME}; the last one is not - or _",
            hint="give another one: graphrt init DIR --name NAME",
            status=2,
        )
    if name.lower().replace("_", "-") == NAME:
        raise CommandFailed(
            f'"{name}" cannot be the name of a project: it would depend on itself',
            hint="give another one: graphrt init DIR --name NAME",
            status=2,
        )
    return name


def _sources(name: str, kind: ProjectKind) -> tuple[Path, list[Path]]:
    """Return the directories of a kind's template and of its models.

    Raises:
        CommandFailed: they are not installed.
    """
    root = examples_directory()
    if root is not None:
        template = root / "projects" / name
        models = [root / "models" / model for model in kind.models]
        if all(directory.is_dir() for directory in (template, *models)):
            return template, models
    raise CommandFailed(
        f"this installation of graphrt lacks the files of `{name}`",
        hint="install graphrt again, from its wheel",
    )


# The directory ------------------------------------------------------------------------------------


def check_target(target: Path) -> None:
    """Check that a project can be made in a directory: a new one, or one without files.

    Raises:
        CommandFailed: something is in the way.
    """
    if not os.path.lexists(target):
        if not target.parent.is_dir():
            raise CommandFailed(
                f"{target.parent}: no such directory",
                hint=f"make it first: mkdir -p {shlex.quote(str(target.parent))}",
            )
        return
    if not target.is_dir():
        raise CommandFailed(f"{target} exists and is not a directory")
    found = sorted(entry for entry in os.listdir(target) if entry not in _NOT_IN_THE_WAY)
    if found:
        shown = ", ".join(found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise CommandFailed(
            f"{target} is not empty: it has {shown}{more}",
            hint="name a new or empty directory; nothing is ever overwritten",
        )


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield an empty directory on the target's disk, and remove what is left in it."""
    place = target if target.is_dir() else target.parent
    with tempfile.TemporaryDirectory(dir=place, prefix=f".{NAME}-init-") as directory:
        # Inside it, because temporary directories are closed to other users.
        project = Path(directory, "project")
        project.mkdir()
        yield project


def publish(project: Path, target: Path) -> None:
    """Move a finished project to its place: all of it, or nothing.

    Raises:
        OSError: it cannot be moved, or something has appeared there meanwhile.
    """
    if not target.is_dir():
        project.rename(target)
        return
    # A directory that has .git, or is the working directory, cannot be replaced as a whole.
    moved: list[Path] = []
    try:
        for source in sorted(project.iterdir()):
            place = target / source.name
            if os.path.lexists(place):
                raise FileExistsError(0, "has appeared meanwhile", str(place))
            source.rename(place)
            moved.append(place)
    except BaseException:
        for place in moved:
            place.rename(project / place.name)
        raise


# The files ----------------------------------------------------------------------------------------


def copy_files(source: Path, place: Path, *, name: str | None = None) -> None:
    """Copy a file, or the files of a directory, under the project's name if it is given.

    Files and directories get the permissions of new ones, not the installed package's.
    """
    if source.is_file():
        place.write_bytes(source.read_bytes())
        return
    place.mkdir(parents=True, exist_ok=True)
    for each in sorted(source.rglob("*")):
        path = each.relative_to(source)
        if not _CACHES.isdisjoint(path.parts):
            continue
        if each.is_dir():
            (place / path).mkdir()
            continue
        content = each.read_bytes()
        if name is not None:
            identifier = name.replace("-", "_")
            content = content.replace(_AS_NAME, name.encode())
            content = content.replace(_AS_IDENTIFIER, identifier.encode())
        (place / path).write_bytes(content)
