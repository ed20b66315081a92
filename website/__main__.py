"""``python -m website [FOLDER]``: write the pages of the site; `FOLDER` is made anew."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from website.repository_pages import ROOT
from website.write import write_site

_DEFAULT = ROOT / "build" / "site" / "pages"


def main(words: list[str]) -> None:
    """Write the pages."""
    folder = Path(words[0]) if words else _DEFAULT
    shutil.rmtree(folder, ignore_errors=True)
    write_site(folder)
    print(f"{folder}: {sum(1 for _ in folder.rglob('*.md'))} pages")


if __name__ == "__main__":
    main(sys.argv[1:])
