"""`reference`: the text of ``docs/reference/server_options.md``, from the declarations.

``python -m servers.options.reference > docs/reference/server_options.md`` writes the page again.
"""

from __future__ import annotations

import sys

from calculators.settings.declaration import Option, by_group
from servers.options.server_options import WITHOUT_EFFECT, declared_options

_HEAD = """\
# Options of `graphrt serve`

Made from the declarations by `python -m servers.options.reference`; do not edit.
`graphrt serve --help` says the same. Dashes may stand for underscores, and a switch (`BOOL`) may
stand without its value. The last column names the key of config.json that says the same; one
without a dot is a key of a graph's or a model's entry.
"""


def reference() -> str:
    """The page, in Markdown."""
    parts = [_HEAD]
    for group, options in by_group(declared_options()).items():
        text = " ".join(group.text.split())
        parts += [
            f"## {group.title[0].upper()}{group.title[1:]}\n",
            *([f"{text}\n"] if text else []),
        ]
        parts.append("| option | value | meaning | config.json |\n|---|---|---|---|")
        parts.append("\n".join(map(_row, options)) + "\n")
    parts.append("## Accepted, without effect\n\n| option | reason |\n|---|---|")
    parts.append("\n".join(f"| `--{name}` | {why} |" for name, (_, why) in WITHOUT_EFFECT.items()))
    return "\n".join(parts) + "\n"


def _row(option: Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in option.flags)
    text = option.text.replace("|", "\\|")
    key = f"`{option.config_key}`" if option.config_key else ""
    return f"| {flags} | {option.metavar} | {text} | {key} |"


if __name__ == "__main__":
    sys.stdout.write(reference())
