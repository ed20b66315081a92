"""Names of streams and side packets, ``[TAG:[index:]]name``, and their order.

The grammar lives here and nowhere else (MediaPipe ``framework/tool/validate_name.cc`` and
``tag_map.cc``). A port's *id* is its place when tags are sorted by byte order ("" first), then by
index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graph_runtime.errors import Code, GraphConfigError

STREAM_PATTERN = r"([A-Z_][A-Z0-9_]*:((0|[1-9][0-9]*):)?)?[a-z_][a-z0-9_]*"
TAG_INDEX_PATTERN = r"([A-Z_][A-Z0-9_]*)?(:(0|[1-9][0-9]*))?"
MAX_INDEX = 10000

_STREAM = re.compile(r"(?:([A-Z_][A-Z0-9_]*):(?:(0|[1-9][0-9]*):)?)?([a-z_][a-z0-9_]*)\Z")
_TAG_INDEX = re.compile(r"([A-Z_][A-Z0-9_]*)?(?::(0|[1-9][0-9]*))?\Z")
_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class TagIndexName:
    """One parsed entry. ``index`` is -1 for an untagged entry: its place in the list counts."""

    tag: str
    index: int
    name: str


def is_stream_name(name: str) -> bool:
    """Return True if ``name`` is a bare stream or side packet name."""
    return _NAME.match(name) is not None


def parse_tag_index_name(text: str) -> TagIndexName:
    """``"TAG:2:name"`` -> ("TAG", 2, "name"); ``"TAG:name"`` has index 0, ``"name"`` has -1."""
    match = _STREAM.match(text)
    if match is None:
        raise GraphConfigError(
            f'TAG:index:name is invalid, "{text}" does not match "{STREAM_PATTERN}" '
            f'(examples: "TAG:name" "VIDEO:2:name_b", "longer_name").{_remedy(text)}'
        )
    tag, index, name = match.groups()
    if tag is None:
        return TagIndexName("", -1, name)
    number = _checked_index(text, index)
    return TagIndexName(tag, number, name)


def parse_tag_index(text: str) -> tuple[str, int]:
    """``"TAG:2"`` -> ("TAG", 2); ``""`` is untagged 0, ``":3"`` untagged 3."""
    match = _TAG_INDEX.match(text)
    if match is None:
        raise GraphConfigError(
            f'TAG:index is invalid, "{text}" does not match "{TAG_INDEX_PATTERN}" '
            '(examples: "TAG" "VIDEO:2").'
        )
    tag, index = match.groups()
    return tag or "", _checked_index(text, index)


def _remedy(text: str) -> str:
    """A hint at the entry that was probably meant, with a leading space, or ""."""
    *tags, name = (part.strip() for part in text[:200].split(":"))
    name = re.sub(r"[^a-z0-9_]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    if tags:
        tags[0] = re.sub(r"[^A-Z0-9_]", "_", tags[0].upper())
    meant = ":".join((*tags, name))
    if meant == text or _STREAM.match(meant) is None:
        return ""
    return f' Tags are in capitals, names are not: write "{meant}".'


def _checked_index(text: str, index: str | None) -> int:
    if index is None:
        return 0
    # Length first: int() of a million digits is slow, and refused by newer Pythons.
    if len(index) > 6 or int(index) > MAX_INDEX:
        raise GraphConfigError(
            f'"{text}": index {index[:12]} is too large '
            f"((index64)<=(internal::kMaxCollectionItemId) is {MAX_INDEX})."
        )
    return int(index)


class PortNames:
    """The keys of the ports of one kind. Made once per node, for the maps of all runs.

    Attributes:
        places: (tag, index) of each port, by id.
        ids: every key with the id of its port: (tag, index), the tag alone for index 0, and the
            index alone without a tag.
    """

    __slots__ = ("ids", "places")

    def __init__(self, places: tuple[tuple[str, int], ...]) -> None:
        self.places = places
        self.ids: dict[str | int | tuple[str, int], int] = {}
        for place, (tag, index) in enumerate(places):
            self.ids[tag, index] = place
            if not tag:
                self.ids[index] = place
            elif index == 0:
                self.ids[tag] = place


class TagMap:
    """The ports of one kind of one node: names by (tag, index), in id order.

    Raises:
        GraphConfigError: bad grammar (INVALID_ARGUMENT); a place given twice or a gap in the
            indexes of a tag (FAILED_PRECONDITION).
    """

    __slots__ = ("_ids", "keys", "names", "port_names")

    def __init__(self, entries: Iterable[str]) -> None:
        by_tag: dict[str, dict[int, str]] = {}
        untagged = 0
        for text in entries:
            entry = parse_tag_index_name(text)
            tag, index, name = entry.tag, entry.index, entry.name
            if index < 0:
                index, untagged = untagged, untagged + 1
            places = by_tag.setdefault(tag, {})
            if index in places:
                raise GraphConfigError(
                    f'tag "{tag}" index {index} already had a name "{places[index]}" but is being '
                    f'reassigned a name "{name}"',
                    code=Code.FAILED_PRECONDITION,
                )
            places[index] = name
        for tag, places in by_tag.items():
            if len(places) != max(places) + 1:
                listing = "\n".join(
                    f"index {i} name " + (f'"{places[i]}"' if i in places else "<missing>")
                    # ``TAG:1000000000:name`` must not make as many lines.
                    for i in range(min(max(places) + 1, 100))
                )
                raise GraphConfigError(
                    f'Not all indexes were assigned names.  Tag "{tag}" has the following:\n'
                    f"{listing}",
                    code=Code.FAILED_PRECONDITION,
                )
        self.keys: tuple[tuple[str, int], ...] = tuple(
            (tag, index) for tag in sorted(by_tag) for index in range(len(by_tag[tag]))
        )
        self.names: tuple[str, ...] = tuple(by_tag[tag][index] for tag, index in self.keys)
        self._ids = {key: place for place, key in enumerate(self.keys)}
        self.port_names = PortNames(self.keys)

    def id_of(self, tag: str, index: int = 0) -> int:
        """Return the id of a port, or -1."""
        return self._ids.get((tag, index), -1)

    def name_of(self, tag: str, index: int = 0) -> str | None:
        """Return the name at a port, or None."""
        place = self._ids.get((tag, index))
        return None if place is None else self.names[place]

    def has_tag(self, tag: str) -> bool:
        """Return True if there is a port with this tag."""
        return (tag, 0) in self._ids

    def tags(self) -> list[str]:
        """Return the distinct tags, sorted."""
        return list(dict.fromkeys(tag for tag, _ in self.keys))

    def num_entries(self, tag: str | None = None) -> int:
        """Return the number of ports, with this tag or in all."""
        if tag is None:
            return len(self.keys)
        return sum(1 for key_tag, _ in self.keys if key_tag == tag)

    def entries(self) -> list[str]:
        """Canonical text forms: ``name``, ``TAG:name`` or ``TAG:2:name``."""
        several = {tag for tag, index in self.keys if index > 0}
        return [
            name if not tag else f"{tag}:{index}:{name}" if tag in several else f"{tag}:{name}"
            for (tag, index), name in zip(self.keys, self.names, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.keys)


def port_label(tag: str, index: int) -> str:
    """A port for messages: ``TAG``, ``TAG:2`` or ``:0``."""
    if not tag:
        return f":{index}"
    return tag if index == 0 else f"{tag}:{index}"
