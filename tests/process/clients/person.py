"""A person, which clients request by its schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import create_model

#: Without bounds, a model could write a name for ever.
Person = create_model("Person", name=(Literal["Ann", "Bob", "Eve"], ...), age=(int, ...))


def told(person: Any) -> dict[str, Any]:
    """Return a person as a fact; any other object as it is."""
    if not isinstance(person, Person):
        return {"not_a_person": repr(person)}
    members: dict[str, Any] = person.model_dump()
    return members
