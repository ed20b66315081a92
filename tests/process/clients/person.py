"""What clients ask for by its schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import create_model

#: A model that knows nobody could go on for ever with a name of its own.
Person = create_model("Person", name=(Literal["Ann", "Bob", "Eve"], ...), age=(int, ...))


def told(person: Any) -> dict[str, Any]:
    """A person as a fact; what is not one is shown as it is."""
    if not isinstance(person, Person):
        return {"not_a_person": repr(person)}
    members: dict[str, Any] = person.model_dump()
    return members
