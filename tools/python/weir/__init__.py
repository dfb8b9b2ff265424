# The package `weir`: what the extension has, and modules beside it that work with the user's own
# framework (`python -m weir.profile_torch`).
# SPDX-License-Identifier: Apache-2.0
from weir._weir import *  # noqa: F403
from weir._weir import __doc__, __version__  # noqa: F401


class Search(dict):
    """What `sweep` found (weir.sweep/1): a dict, of which a notebook shows the ranking."""

    _html = None  # as the search that found it wrote it

    def _repr_html_(self):
        return self._html


def from_torch(module, example_inputs, output=None, batch_sizes=(1, 2, 4), crossing=1,
               repetitions=7, link=None):
    """from_torch(module: object, example_inputs: object, output: object = None, \
batch_sizes: object = (1, 2, 4), crossing: int = 1, repetitions: int = 7, link: object = None) \
-> Any

    A torch.nn.Module of yours as a model and its costs, measured here (weir.torch_model)."""
    from weir import torch_model

    return torch_model.from_torch(module, example_inputs, output, batch_sizes, crossing,
                                  repetitions, link)
