"""`graphrt new`: write a calculator, its graph and its test beside what is there."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import Final

from calculators.kit.examples import examples_directory
from servers.cli.messages import CommandFailed

#: As in `@calculator("acme.Scale")`: packages in small letters, and the name of a class.
_NAME: Final = re.compile(r"(?:[a-z]\w*\.)*([A-Z][A-Za-z0-9]*)", re.ASCII)
#: What stands in the files for the calculator's name, its class and its module.
_AS_REGISTERED: Final = "registered_name"
_AS_CLASS: Final = "ClassName"
_AS_MODULE: Final = "module_name"


def execute(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    found = _NAME.fullmatch(args.name)
    if found is None:
        raise CommandFailed(
            f'"{args.name}" cannot be the name of a calculator: it is a class, such as Scale, or '
            "one in a package, such as acme.Scale",
            status=2,
        )
    module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", found[1]).lower()
    root = examples_directory()
    if root is None:
        raise CommandFailed(
            "this installation of graphrt lacks the files of `graphrt new`",
            hint="install graphrt again, from its wheel",
        )
    names = {_AS_REGISTERED: args.name, _AS_CLASS: found[1], _AS_MODULE: module}
    folder = Path(args.directory)
    texts = {
        folder / _replaced(file.name, names): _replaced(file.read_text("utf-8"), names)
        for file in sorted((root / "new" / args.kind).iterdir())
        if file.is_file()
    }
    _write(texts)
    print(*texts, sep="\n")
    graph, source = (os.path.join(args.directory, f"{module}{end}") for end in (".pbtxt", ".py"))
    feed = '{"stream": "value", "ts": 0, "value": 1.5}'
    print(
        f"\nnext:\n  python -m pytest {os.path.join(args.directory, f'test_{module}.py')}\n"
        f"  echo '{feed}' | graphrt run {graph} --calculators {source} --feed -"
    )
    return 0


def _replaced(text: str, names: dict[str, str]) -> str:
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return text


def _write(texts: dict[Path, str]) -> None:
    """Write files that do not exist yet: all of them, or none.

    Raises:
        CommandFailed: one exists, or the directory cannot be written to.
    """
    written: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink()
        reason = "exists already" if isinstance(error, FileExistsError) else error.strerror
        raise CommandFailed(f"{error.filename}: {reason}; nothing was written") from error
