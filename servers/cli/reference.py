"""The pages of ``docs/reference/``, made from the declarations of options and keys.

``python -m servers.cli.reference > docs/reference/server_options.md`` and ``python -m
servers.cli.reference index > docs/reference/index_options.md`` write them; ``tune`` makes
``docs/reference/tune_options.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from calculators.kit.settings.declaration import Option, by_group
from servers.cli.config_schema import key_texts
from servers.options.model_options import index_options, tune_options
from servers.options.server_options import WITHOUT_EFFECT, declared_options

_HEAD = """\
# Options of `graphrt serve`

Made from the declarations by `python -m servers.cli.reference`; do not edit.
`graphrt serve --help` says the same. Dashes may stand for underscores, and a switch (`BOOL`) may
stand without its value. The last column names the key of config.json that says the same; one
without a dot is a key of a graph's or a model's entry.
"""

_INDEX_HEAD = """\
# Options of `graphrt index`

Made from the declarations by `python -m servers.cli.reference index`; do not edit.
`graphrt index --help` says the same;
[retrieval](../../calculators/language/retrieval/README.md) says
what an index is for.

    graphrt index FILE ... --model DIR [--out FILE]
"""


_TUNE_HEAD = """\
# Options of `graphrt tune`

Made from the declarations by `python -m servers.cli.reference tune`; do not edit.
`graphrt tune --help` says the same; [tuning](../tune.md) says how settings are found. The options
of [`graphrt configure`](server_options.md) are taken too, and are not varied.

    graphrt tune MODEL [--load LOAD] [--budget SECONDS]
"""


def reference() -> str:
    """Return the page of `graphrt serve` in Markdown."""
    parts = [_HEAD]
    for group, options in by_group(declared_options()).items():
        text = " ".join(group.text.split())
        parts += [
            f"## {group.title[0].upper()}{group.title[1:]}\n",
            *([f"{text}\n"] if text else []),
        ]
        parts.append("| option | value | meaning | config.json |\n|---|---|---|---|")
        parts.append("\n".join(map(_row, options)) + "\n")
    parts += _config_keys()
    parts.append("## Accepted, without effect\n\n| option | reason |\n|---|---|")
    parts.append("\n".join(f"| `--{name}` | {why} |" for name, (_, why) in WITHOUT_EFFECT.items()))
    return "\n".join(parts) + "\n"


def index_reference() -> str:
    """Return the page of `graphrt index` in Markdown."""
    return _page(_INDEX_HEAD, index_options())


def tune_reference() -> str:
    """Return the page of `graphrt tune` in Markdown."""
    return _page(_TUNE_HEAD, tune_options())


def _page(head: str, options: Iterable[Option]) -> str:
    parts = [head, "| option | value | meaning |\n|---|---|---|"]
    for each in options:
        flags = ", ".join(f"`{flag}`" for flag in each.flags)
        parts.append(f"| {flags} | {each.metavar} | {_cell(each.text)} |")
    return "\n".join(parts) + "\n"


def _config_keys() -> list[str]:
    """Return the sections about config.json."""
    parts: list[str] = []
    for title, texts in key_texts().items():
        rows = [f"| `{name}` | {_cell(text)} |\n" for name, text in texts.items()]
        parts.append(f"## {title}\n\n| key | meaning |\n|---|---|\n{''.join(rows)}")
    return parts


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(option: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    key = f"`{option.config_key}`" if option.config_key else ""
    return f"| {flags} | {option.metavar} | {_cell(option.text)} | {key} |"


if __name__ == "__main__":
    pages = {"": reference, "index": index_reference, "tune": tune_reference}
    sys.stdout.write(pages["".join(sys.argv[1:])]())
