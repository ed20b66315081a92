"""The calculator of hello.pbtxt: a function is enough."""

from graphrt import calculator


@calculator("Greet")
def greet(name: str) -> str:
    """Make a greeting for a name."""
    return f"Hello, {name}!"
