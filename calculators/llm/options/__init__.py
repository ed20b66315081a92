"""An LLM node's options, checked before anything is loaded."""
