"""Checkpoints: files of trained models, read and converted to models of OpenVINO.

From the file to the directory that an engine loads, in the order of reading:

1. *Sources.* ``gguf`` reads GGUF files, ``safetensors_header`` the headers of safetensors: metadata
   and named tensors, checked against the size of the file, without weights.
2. *Families.* ``families`` is the table of architectures: a family is one declaration. ``decoder``
   reads the numbers of one model as its family means them.
3. *Weights.* ``packed`` unpacks quantized blocks to codes and scales (``iq_grids``: the types that
   choose from a grid), and ``weights`` makes nodes of OpenVINO of them.
4. *Builders.* ``builder`` makes the models of decoders with attention, ``family_builders`` of
   families with other layers, and ``encoder`` of what turns texts into vectors.
5. *Tokenizers.* ``vocabulary`` has the tokens of a file and how it cuts texts into words;
   ``tokenizer_graph`` makes tokenizer and detokenizer.
6. *Conversion.* ``converted_gguf`` finds a converted directory in the cache, or has ``process``
   make it: a child with ``gguf_converter``, which needs all of the above, and ``messages`` between.
"""
