"""SGLang's own API of generation."""
