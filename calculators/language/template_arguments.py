"""`TemplateArguments`: the variables of a chat template besides messages and tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class TemplateArguments:
    """Variables by name, and the end of the prompt.

    ``values`` does not contain ``add_generation_prompt``, which is None if the request does not
    have it. ``continues``: the answer goes on with the last message.
    """

    values: dict[str, Any] = field(default_factory=dict)
    add_generation_prompt: bool | None = None
    continues: bool = False

    @property
    def all_values(self) -> dict[str, Any]:
        """All variables, for the template."""
        begins = self.add_generation_prompt is not False and not self.continues
        return {**self.values, "add_generation_prompt": begins}


#: A request without any.
NO_ARGUMENTS: Final = TemplateArguments()
