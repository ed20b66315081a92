"""What the child processes of language models share, beyond `calculators.child_process`."""
