"""Settings of a language model found by measuring, for `graphrt tune`."""
