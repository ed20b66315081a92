"""References in a schema: to places, anchors and identifiers of the same document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from calculators.llm.grammars.schema_keywords import SchemaError, inner_schemas

#: An array index in a JSON pointer (RFC 6901): no leading zeros. No schema has a million items.
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class References:
    """The targets of references in one document. Nothing is ever fetched."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._has_identifiers: bool | None = None
        #: The identifier of the part of the document that has a schema, for each with another than
        #: the document's.
        self._bases: dict[int, str] = {}
        self._named: dict[str, object] = {}
        self._dynamic: dict[str, int] = {}

    def target(self, schema: Mapping[str, Any], reference: object, place: str) -> object:
        """Return the target of a reference in ``schema``.

        Raises:
            SchemaError: the target is not in this document.
        """
        if not isinstance(reference, str):
            raise SchemaError(place, "expected a reference")
        if self._has_identifiers is None:
            self._index()
        if not self._has_identifiers and reference.startswith("#"):
            address, fragment = "", reference[1:]
        else:
            try:
                address, fragment = urldefrag(urljoin(self._bases.get(id(schema), ""), reference))
            except ValueError:
                raise SchemaError(place, "expected a reference") from None
        known = self._named if address or self._has_identifiers else {"": self._root}
        if address not in known:
            raise SchemaError(place, 'only references inside the schema ("#/...") are followed')
        if not fragment or fragment.startswith("/"):
            found = _at(known[address], unquote(fragment), place)
        else:
            found = self._named.get(f"{address}#{unquote(fragment)}")
            if found is None:
                raise SchemaError(place, "the reference leads nowhere")
        if not isinstance(found, dict | bool):
            raise SchemaError(place, "the reference leads to what is no schema")
        return found

    def is_ambiguous(self, anchor: str) -> bool:
        """Return True if a dynamic reference to the anchor may lead to several places."""
        if self._has_identifiers is None:
            self._index()
        return self._dynamic.get(anchor, 0) > 1

    def _index(self) -> None:
        self._has_identifiers = False
        self._named[""] = self._root
        waiting: list[tuple[object, str]] = [(self._root, "")]
        seen: set[int] = set()
        while waiting:
            here, base = waiting.pop()
            if not isinstance(here, dict) or id(here) in seen:
                continue
            seen.add(id(here))
            own = here.get("$id")
            if isinstance(own, str):
                self._has_identifiers = self._has_identifiers or here is not self._root
                try:
                    base = urldefrag(urljoin(base, own))[0]
                except ValueError:
                    base = ""
                self._named[base] = here
                if here is self._root:
                    self._has_identifiers = True
            self._bases[id(here)] = base
            for name in _ANCHORS:
                if isinstance(here.get(name), str):
                    self._named.setdefault(f"{base}#{here[name]}", here)
            if isinstance(here.get("$dynamicAnchor"), str):
                anchor = here["$dynamicAnchor"]
                self._dynamic[anchor] = self._dynamic.get(anchor, 0) + 1
            waiting += ((each, base) for each, _ in inner_schemas(here))


def _at(root: object, pointer: str, place: str) -> object:
    here = root
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and key in here:
            here = here[key]
        elif isinstance(here, list) and _INDEX.fullmatch(key) and int(key) < len(here):
            here = here[int(key)]
        else:
            raise SchemaError(place, "the reference leads nowhere")
    return here
