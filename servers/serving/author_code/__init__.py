"""Authors' calculators: the key ``python_path`` of a config.json.

A path is a ``.py`` file, a package, or a directory. In a directory, every file and package is
imported whose name does not begin with ``_`` or a dot. The modules of a path find each other by
name, however they import. No other code finds them, so two graphs may have different modules of one
name.
"""

from servers.serving.author_code.import_failure import ImportFailure
from servers.serving.author_code.python_path import ModuleImports, registry_of, registry_with

__all__ = ["ImportFailure", "ModuleImports", "registry_of", "registry_with"]
