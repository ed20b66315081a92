"""Chat templates: the prompt of a request's messages.

::

    template = ChatTemplate.load(model_directory)   # once; compiles
    renderer = ChatRenderer(template)               # once; finds out what the template can do
    prompt = renderer.render(messages, tools=tools)

Needs Jinja and the standard library, but no model library.
"""
