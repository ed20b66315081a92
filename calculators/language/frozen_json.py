"""JSON values that nobody changes in place: messages and members of requests.

All nodes of a graph read the same request. Templates and encoders take dictionaries and lists, so
these are such, but their changing methods raise `AuthorMistake`, at the line that would change what
others read. A copy for each node would cost every graph; this costs one walk for each request.
``copy.deepcopy`` and pickles make ordinary values.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from calculators.language.mistakes import AuthorMistake

_MEANT: Final = (
    "a part of a request cannot be changed in place: other nodes read the same request. Return a "
    "changed one: request.with_messages(*request.messages[:-1], {**request.messages[-1], "
    '"content": "Hello"}), or request.with_sampling(max_tokens=100)'
)


def _refuse(self: object, *values: object, **named: object) -> NoReturn:
    raise AuthorMistake(_MEANT)


class FrozenObject(dict[str, Any]):
    """A dictionary that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class FrozenArray(list[Any]):
    """A list that cannot be changed."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def frozen(value: Any) -> Any:
    """Return a value whose dictionaries and lists cannot be changed; frozen ones as they are."""
    kind = type(value)
    if kind is FrozenObject or kind is FrozenArray or kind is str:
        return value
    if isinstance(value, dict):
        return FrozenObject({name: frozen(each) for name, each in value.items()})
    if isinstance(value, list):
        return FrozenArray([frozen(each) for each in value])
    return value
