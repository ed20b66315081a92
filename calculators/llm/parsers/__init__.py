"""What a model's text means: reasoning, content, tool calls. Text in, events out."""
