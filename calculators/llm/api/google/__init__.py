"""Google's API: its requests and answers, and its schemas as JSON schemas."""
