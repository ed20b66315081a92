"""What a model's text means: reasoning, content, tool calls. Pure and incremental: text in, events out."""
