"""llama.cpp's own API: completions, text that is filled in, and what a server says of itself."""
