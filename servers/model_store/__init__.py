"""The model store: the directory of models that were downloaded from a hub, or exported.

`directory` keeps it: complete models, and those in progress. `pull` downloads a model by its
`model_reference`, and only the `wanted_files` of its repository. The hub is Hugging Face's, or
whatever speaks its protocol at ``HF_ENDPOINT``. The package ``huggingface_hub`` is imported with
the first request to a hub only.

`export` brings models of safetensors into OpenVINO's form, by optimum-intel in a process of its
own. The program ``optimum-cli`` comes with ``pip install graphrt[export]``, or with any environment
whose programs are on the path. graphrt imports nothing of it.
"""
