"""`option`: a field of a frozen dataclass that an operator may set, with its flag and help.

The fields of such a dataclass are the only place that defines a flag of ``graphrt serve``: the
command line, its help, the settings object and ``docs/reference/server_options.md`` come from
them. Imports nothing that takes time: ``graphrt serve --help`` reads the declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

from calculators.kit.settings.value_types import switch

T = TypeVar("T")

_KEY: Final = "option"


class SettingError(ValueError):
    """A value is well-formed but cannot be used; the text names the flag."""


@dataclass(frozen=True, slots=True)
class Group:
    """A heading of the help, with a text under it."""

    title: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One declared option.

    Attributes:
        name: the name of the dataclass's field.
        flag: the flag without dashes; also the name of the parsed argument.
        aliases: further spellings of the flag.
        reads: converts the flag's word to a value, or raises `argparse.ArgumentTypeError`.
        resolve: converts that value to the field's value when the server starts, or raises
            ValueError.
        default: the field's default value.
        help: one sentence, in which ``{default}`` stands for the default.
        config_key: the key in config.json, with ``{flag}`` for the flag's name; "" if there is
            none.
    """

    name: str = ""
    flag: str
    aliases: tuple[str, ...] = ()
    group: Group
    metavar: str
    reads: Callable[[str], object]
    resolve: Callable[[Any], object] | None = None
    default: object
    help: str
    config_key: str = ""

    @property
    def is_switch(self) -> bool:
        """True if the flag needs no value."""
        return self.reads is switch

    @property
    def flags(self) -> tuple[str, ...]:
        """All spellings, with dashes."""
        return tuple(f"--{flag}" for flag in (self.flag, *self.aliases))

    @property
    def text(self) -> str:
        """`help` with the default filled in."""
        return self.help.replace("{default}", _shown(self.default))


def option(
    default: T,
    help: str,
    *,
    group: Group,
    metavar: str,
    reads: Callable[[str], object] = str,
    resolve: Callable[[Any], object] | None = None,
    flag: str = "",
    aliases: tuple[str, ...] = (),
    config_key: str = "",
) -> T:
    """Declare a field. ``flag`` defaults to the field's name; for the others see `Option`."""
    declared = Option(
        flag=flag,
        aliases=aliases,
        group=group,
        metavar=metavar,
        reads=reads,
        resolve=resolve,
        default=default,
        help=help,
        config_key=config_key,
    )
    # A factory, since dataclasses refuse defaults without a hash, such as read-only mappings.
    made: T = field(default_factory=lambda: default, metadata={_KEY: declared})
    return made


def options_of(*kinds: type[Any]) -> tuple[Option, ...]:
    """Return the options that dataclasses declare, in order, inherited ones once.

    Raises:
        TypeError: two classes declare the same flag independently.
    """
    found: dict[str, Option] = {}
    declarations: dict[str, Option] = {}
    for kind in kinds:
        for each in fields(kind):
            if _KEY in each.metadata:
                declared = each.metadata[_KEY]
                flag = declared.flag or each.name
                if declarations.setdefault(flag, declared) is not declared:
                    raise TypeError(
                        f"{kind.__name__}.{each.name}: --{flag} is declared elsewhere; inherit "
                        f"both from one base"
                    )
                key = declared.config_key.replace("{flag}", flag)
                found.setdefault(flag, replace(declared, name=each.name, flag=flag, config_key=key))
    return tuple(found.values())


def given_fields(kind: type[Any], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of ``kind`` for which ``values``, by flag, has a value.

    Raises:
        SettingError: a value cannot be used.
    """
    found: dict[str, Any] = {}
    for declared in options_of(kind):
        value = values.get(declared.flag)
        if value is None:
            continue
        if declared.resolve is not None:
            try:
                value = declared.resolve(value)
            except ValueError as error:
                raise SettingError(f"--{declared.flag} {value}: {error}") from None
        found[declared.name] = value
    return found


def read(kind: type[T], values: Mapping[str, object]) -> T:
    """Return the settings of one type; fields without a value have their defaults.

    Raises:
        SettingError: a value cannot be used.
    """
    return kind(**given_fields(kind, values))


def values_of(settings: Any) -> dict[str, Any]:
    """Return the fields of settings by name, to make settings of a subclass."""
    return {each.name: getattr(settings, each.name) for each in fields(settings)}


def by_group(options: Iterable[Option]) -> dict[Group, list[Option]]:
    """Group options by heading, both in order of appearance."""
    groups: dict[Group, list[Option]] = {}
    for each in options:
        groups.setdefault(each.group, []).append(each)
    return groups


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


RUNNING: Final = Group("running")
MEDIA: Final = Group("images that requests name")
TASK: Final = Group(
    "a model without a graph",
    "When DIR holds no graph.pbtxt, a graph for its model is made; nothing is written.\n"
    "These are the options of its node.",
)
