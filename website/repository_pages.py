"""Pages of the repository as pages of the site: links, anchors, lists and drawings are adapted.

Pages below ``docs/`` stand at the root of the site, and the README is its first page. Another page
that a page links to follows under its own path. Other text files that pages link to become pages
below ``source/``.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_FIRST: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
_PICTURES: Final = frozenset({".png", ".svg", ".jpg"})
_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$\n?", re.S | re.M)
_GRAPH: Final = re.compile(r"[\w/.]+\.pbtxt")
_LINK: Final = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(#[^)\s]+)?\)")
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) ")
#: Names of fences by endings of files.
_LANGUAGES: Final = {".py": "python", ".json": "json", ".yaml": "yaml", ".toml": "toml"}


class RepositoryPages:
    """The pages of the repository that the site has.

    Args:
        draw: returns the drawing of a graph's file, as SVG. It takes the place of a ``mermaid``
            block: a library that draws those in the browser would come from another host.
    """

    def __init__(self, draw: Callable[[Path], str]) -> None:
        self._draw = draw
        #: Drawings by their paths in the site.
        self._drawings: dict[str, str] = {}
        #: Paths in the repository of pages and files that are still to be written.
        self._waiting: list[str] = []
        self._seen: set[str] = set()

    def write(self, folder: Path) -> set[str]:
        """Write the pages below a folder and return their paths there."""
        docs = (str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*")))
        for path in (*_FIRST, *docs):
            if (ROOT / path).is_file():
                self._place(path)
        written = set()
        while self._waiting:
            path = self._waiting.pop()
            place = site_path(path)
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            source = ROOT / path
            if source.is_dir():
                file.write_text(self._listing(path), encoding="utf-8")
            elif place.startswith("source/"):
                file.write_text(_source_page(path), encoding="utf-8")
            elif source.suffix == ".md":
                text = source.read_text(encoding="utf-8")
                file.write_text(self.adapted(text, path), encoding="utf-8")
            else:
                shutil.copyfile(source, file)
            written.add(place)
        for place, svg in self._drawings.items():
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_text(svg, encoding="utf-8")
        return written

    def adapted(self, text: str, path: str) -> str:
        """Return the text of a page for the site; ``path``: its path in the repository."""
        parts: list[str] = []
        end = 0
        for fence in _FENCE.finditer(text):
            before = text[: fence.start()]
            parts += [self._prose(before[end:], path), self._fence(fence, before, path)]
            end = fence.end()
        return "".join([*parts, self._prose(text[end:], path)])

    def _fence(self, fence: re.Match[str], before: str, path: str) -> str:
        language, _ = fence.groups()
        if language != "mermaid":
            return fence[0]
        # The page names the graph just before it shows it.
        named = ["graph.pbtxt", *_GRAPH.findall(before)][-1]
        beside = ROOT / posixpath.dirname(path) / named
        file = (beside if beside.is_file() else ROOT / named).resolve()
        place = f"drawings/{file.parent.name}_{file.stem}.svg"
        if place not in self._drawings:
            self._drawings[place] = self._draw(file)
        up = posixpath.relpath(place, posixpath.dirname(site_path(path)) or ".")
        return f"![The graph {named}]({up})\n"

    def _prose(self, text: str, path: str) -> str:
        linked = _LINK.sub(lambda link: self._link(link, path), text)
        # Not references: the optional parts of a name.
        return _with_room_before_lists(re.sub(r"\[(?=[@:]\w)", r"\\[", linked))

    def _link(self, link: re.Match[str], path: str) -> str:
        target, anchor = link[1], _anchor(link[2] or "")
        if not target:
            return f"]({anchor})"
        place = self._place(posixpath.normpath(posixpath.join(posixpath.dirname(path), target)))
        return f"]({posixpath.relpath(place, posixpath.dirname(site_path(path)) or '.')}{anchor})"

    def _place(self, path: str) -> str:
        """Return the place of a path of the repository, which the site then has."""
        file = ROOT / path
        if file.is_dir() and (file / "README.md").is_file():
            path = f"{path}/README.md"
        # A broken link is left as it is, for mkdocs to report.
        if path not in self._seen and file.exists():
            self._seen.add(path)
            self._waiting.append(path)
        return site_path(path)

    def _listing(self, path: str) -> str:
        """Return a page that lists the files of a folder."""
        lines = [f"# {path}/\n"]
        for file in sorted((ROOT / path).iterdir()):
            if file.is_file() and _is_text(file):
                place = self._place(f"{path}/{file.name}")
                lines.append(f"- [{file.name}]({posixpath.relpath(place, f'source/{path}')})")
        return "\n".join(lines) + "\n"


def site_path(path: str) -> str:
    """Return the place in the site of a file or folder of the repository."""
    if path == "README.md":
        return "index.md"
    if path in _FIRST:
        return path.lower()
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    suffix = Path(path).suffix
    if suffix == ".md" or suffix in _PICTURES:
        return path
    if (ROOT / path).is_dir():
        return f"source/{path}/index.md"
    return f"source/{path}.md"


def _source_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8").rstrip("\n")
    return f"# {path}\n\n````{_LANGUAGES.get(Path(path).suffix, 'text')}\n{text}\n````\n"


def _is_text(file: Path) -> bool:
    return file.suffix in {".py", ".json", ".yaml", ".toml", ".pbtxt", ".jsonl", ".txt", ".md"}


def _anchor(anchor: str) -> str:
    """Return the anchor of a heading as Python-Markdown makes it, of one as GitHub makes it."""
    return re.sub(r"-{2,}", "-", anchor)


def _with_room_before_lists(text: str) -> str:
    """Put an empty line before each list, without which Python-Markdown sees none."""
    lines = text.split("\n")
    spaced: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        begins = _ITEM.match(line) and before.strip()
        if begins and not _ITEM.match(before) and not before.startswith(" "):
            spaced.append("")
        spaced.append(line)
    return "\n".join(spaced)
