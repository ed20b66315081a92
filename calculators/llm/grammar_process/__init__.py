"""The process that compiles grammars before an engine sees them."""
