"""`ModelDirectoryLoader`: the files that ``{% include %}`` can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jinja2 import BaseLoader, Environment, TemplateNotFound
from jinja2.loaders import split_template_path

from calculators.llm.prompt.chat_template.limits import LONGEST_TEMPLATE
from graph_runtime.regular_file import read_regular_file


class ModelDirectoryLoader(BaseLoader):
    """Loads small text files of one directory; a link must not lead out of it."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = None if directory is None else directory.resolve()

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool] | None]:
        if self._directory is None:
            raise TemplateNotFound(template)
        try:
            # Refuses "..", and other systems' separators.
            path = self._directory.joinpath(*split_template_path(template)).resolve()
            if not path.is_relative_to(self._directory):
                raise TemplateNotFound(template)
            text = read_regular_file(path, LONGEST_TEMPLATE).decode()
        except (OSError, ValueError, RuntimeError) as error:  # links in a circle, no UTF-8, ...
            raise TemplateNotFound(template) from error
        # The name replaces the path, which must not appear in errors.
        return text, template, None
