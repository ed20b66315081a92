"""The names that authors import: ``from graphrt import calculator, on_text, answers``.

The names are all of `graph_runtime`, for calculators and graphs, and all of `calculators.language`,
for nodes around language models. Both can be imported as well; a name is the same object there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import graph_runtime
from calculators import language
from graph_runtime import *  # noqa: F403

if TYPE_CHECKING:
    from calculators.language import *  # noqa: F403

__all__: list[str] = []
__all__ += graph_runtime.__all__
__all__ += language.__all__


# Authors of calculators for tensors and images need none of it: it is loaded name by name.
def __getattr__(name: str) -> Any:
    if name not in language.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(language, name)
