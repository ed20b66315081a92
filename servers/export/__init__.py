"""Export of models in safetensors to OpenVINO's form, by optimum-intel in a process of its own.

The program ``optimum-cli`` comes with ``pip install graphrt[export]``, or with any environment
whose programs are on the path. graphrt imports nothing of it.
"""

from servers.export.errors import ExportError

__all__ = ["ExportError"]
