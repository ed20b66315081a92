"""`graphrt examples`: list the examples that come with graphrt, and copy them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from calculators.kit.examples import examples_directory
from servers.cli.arguments import KINDS
from servers.cli.init import check_target, copy_files, publish, staged
from servers.cli.messages import CommandFailed
from servers.cli.parser import near

#: Kinds of examples, as folders, in the order of the list.
_FOLDERS: Final = ("models", "graphs", "agents")
#: A row of their README.md: a name or a file, and what it shows.
ROW: Final = re.compile(r"^\| [^|\n]*\[[^]]+\]\(([\w/.]+)\) \| ([^|]+) \|", re.M)
_LINK: Final = re.compile(r"\]\((\w+)(?:\.\w+)?\)")
_MODEL_BESIDE: Final = re.compile(r"\.\./\.\./models/(\w+)")
#: The name of all of them.
EVERYTHING: Final = "all"


class Example(NamedTuple):
    """One example.

    Attributes:
        name: ``FOLDER/NAME``.
        files: its directory; for a graph that is a file, all files of its name.
        shows: what it shows.
    """

    name: str
    files: tuple[Path, ...]
    shows: str


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    root = examples_directory()
    if root is None:
        raise CommandFailed(
            "this installation of graphrt lacks its examples",
            hint="install graphrt again, from its wheel",
        )
    found = [*_examples(root)]
    if args.name is None:
        width = max(len(example.name) for example in found)
        print("\n".join(f"{name:{width}}  {shows}" for name, _, shows in found))
        return 0
    if args.name == EVERYTHING:
        target = Path(args.directory or "examples")
        files, shows = tuple(sorted(root.iterdir())), "all examples"
    else:
        name, files, shows = _named(args.name, found)
        target = Path(args.directory or Path(name).name)
    try:
        check_target(target)
        with staged(target) as place:
            for file in files:
                copy_files(file, place if len(files) == 1 and file.is_dir() else place / file.name)
            if args.name != EVERYTHING:
                _bring_models(place, root / "models")
            publish(place, target)
    except OSError as error:
        named = error.filename2 or error.filename or target
        raise CommandFailed(f"{named}: {error.strerror or error}; nothing was copied") from error
    print(f"{target}: {shows}")
    return 0


def _bring_models(place: Path, models: Path) -> None:
    """Copy the models that a copied graph has beside its folder into it."""
    for file in [*place.iterdir()]:
        if file.suffix in (".pbtxt", ".json"):
            text = file.read_text(encoding="utf-8")
            for name in set(_MODEL_BESIDE.findall(text)):
                if not (place / "models" / name).exists():
                    copy_files(models / name, place / "models" / name)
            file.write_text(_MODEL_BESIDE.sub(r"models/\1", text), encoding="utf-8")


def _examples(root: Path) -> Iterator[Example]:
    for folder in _FOLDERS:
        made: dict[str, Example] = {}
        for row in ROW.finditer((root / folder / "README.md").read_text(encoding="utf-8")):
            name = f"{folder}/{row[1].partition('/')[0].partition('.')[0]}"
            place, shows = root / name, _plain(row[2])
            if name in made:
                shows = f"{made[name].shows}; {shows}"
            # A graph that is a file lies there with its feeds, its calculators and its subgraphs.
            stems = _LINK.findall(row[0])
            files = [file for stem in stems for file in sorted(place.parent.glob(f"{stem}.*"))]
            made[name] = Example(name, (place,) if place.is_dir() else tuple(files), shows)
        yield from made.values()
    for kind, project in KINDS.items():
        yield Example(f"projects/{kind}", (root / "projects" / kind,), project.summary)


def _plain(markdown: str) -> str:
    """Return the text of a cell without links and marks of code."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)|`", r"\1", markdown).strip()


def _named(word: str, found: Sequence[Example]) -> Example:
    """Return the example that a word names: ``guard``, ``graphs/guard``, ``examples/graphs/guard``.

    Raises:
        CommandFailed: there is none, or several folders have one of that name.
    """
    name = word.rstrip("/").removeprefix("examples/")
    same = {each.name: each for each in found if name in (each.name, Path(each.name).name)}
    if len(same) == 1:
        return same.popitem()[1]
    if same:
        raise CommandFailed(f"{word} may be {' or '.join(same)}", hint="name one of them", status=2)
    known = [*(each.name for each in found), *(Path(each.name).name for each in found)]
    likely = near(name, known)
    raise CommandFailed(
        f"there is no example {word}",
        hint=f"did you mean {likely}?" if likely else "`graphrt examples` lists them",
        status=2,
    )
