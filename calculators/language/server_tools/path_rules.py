"""`PathRules`: the paths that the arguments of a tool may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

#: Formats of JSON schemas that pydantic gives to paths.
PATH_FORMATS: Final = frozenset({"path", "file-path", "directory-path"})
#: Deeper arguments are refused before anything looks at them.
_MAX_DEPTH: Final = 64


class PathRefused(Exception):
    """An argument names a path that is not allowed; the text is for the model."""


class PathRules:
    """The allow-list of paths of one server.

    A path may be named if it is one of the allowed ones, or below one, after symbolic links and
    ".." are resolved. Without allowed paths, none may be.
    """

    def __init__(
        self, directory: str, allowed: Sequence[str], argument_patterns: Sequence[str] = ()
    ) -> None:
        """``directory``: relative paths start here. ``argument_patterns``: names of arguments that
        are paths although their schema does not say so."""
        self._directory = Path(directory)
        self._allowed = [Path(path).resolve() for path in allowed]
        self._patterns = tuple(argument_patterns)

    def resolve(self, text: str, argument: str) -> Path:
        """Return the absolute path that an argument means; ``argument``: its name, if it is known.

        Raises:
            PathRefused: it is not allowed.
        """
        place = f'the path in "{argument}"' if argument else "the path"
        path = text
        if text[:5].lower() == "file:":
            path = unquote(urlsplit(text).path)
        try:
            resolved = (self._directory / path).resolve()
        except (OSError, ValueError, RuntimeError):  # a null character, a circle of links
            raise PathRefused(f"{place} cannot be read") from None
        if any(resolved.is_relative_to(allowed) for allowed in self._allowed):
            return resolved
        raise PathRefused(f"{place} is outside of the allowed directories")

    def check(self, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        """Check all paths among the arguments of a call.

        Raises:
            PathRefused: one of them is not allowed.
        """
        for name, text in self._paths(arguments, schema, schema, "", False, 0):
            self.resolve(text, name)

    def _paths(
        self, value: Any, schema: Any, root: Any, name: str, is_path: bool, depth: int
    ) -> Iterator[tuple[str, str]]:
        """Yield (argument, text) of each path in a value."""
        if depth > _MAX_DEPTH:
            raise PathRefused("the arguments are nested too deeply")
        parts = list(_alternatives(schema, root))
        is_path = is_path or any(part.get("format") in PATH_FORMATS for part in parts)
        match value:
            case str():
                if is_path or value[:5].lower() == "file:":
                    yield name, value
            case list():
                items = [part.get("items") for part in parts]
                for item in value:
                    yield from self._paths(item, {"anyOf": items}, root, name, is_path, depth + 1)
            case dict():
                for key, item in value.items():
                    of_key = [_property(part, key) for part in parts]
                    named = any(fnmatchcase(key, pattern) for pattern in self._patterns)
                    yield from self._paths(
                        item, {"anyOf": of_key}, root, key, is_path or named, depth + 1
                    )
            case _:
                pass


def _property(schema: Mapping[str, Any], name: str) -> Any:
    """Return the schema of a member of an object."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    return schema.get("additionalProperties")


def _alternatives(schema: Any, root: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those that it joins, with references resolved."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    yield schema
    for word in ("anyOf", "oneOf", "allOf"):
        joined = schema.get(word)
        for part in joined if isinstance(joined, list) else ():
            yield from _alternatives(part, root, depth + 1)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        yield from _alternatives(found, root, depth + 1)
