"""Models of a hub: found by name, downloaded, checked, and kept in a directory of models.

The hub is Hugging Face's, or whatever speaks its protocol at ``HF_ENDPOINT``. Needs the package
``huggingface_hub`` (``pip install graphrt[hub]``), which is imported with the first request to a
hub only.
"""

from servers.hub.errors import HubError
from servers.hub.model_reference import ModelReference, read_reference

__all__ = ["HubError", "ModelReference", "read_reference"]
