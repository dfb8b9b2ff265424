# The package `weir`: what the extension has, and modules beside it that work with the user's own
# framework (`python -m weir.profile_torch`).
# SPDX-License-Identifier: Apache-2.0
from weir._weir import *  # noqa: F403
from weir._weir import __doc__, __version__, _search_cell  # noqa: F401


class Search(dict):
    """What `sweep` found (weir.sweep/1): a dict, of which a notebook shows the ranking."""

    _DRAWN = 50  # plans of a cell: of thousands its chart would be a cloud

    def copy(self):
        """copy() -> Search

        Another of its own, as of any dict."""
        return Search(self)

    def _repr_html_(self):
        """Of what is in it now; None where that is no search's result."""
        names = ("candidates", "feasible", "baseline", "effort")
        part = {name: self[name] for name in names if name in self}
        if not isinstance(self.get("plans"), list):
            return None
        # Beyond those that are drawn, the two that may be the baseline itself.
        place = (part.get("baseline") or {}).get("place") or 0
        part["plans"] = [plan if i < self._DRAWN or i in (place - 1, place) else None
                         for i, plan in enumerate(self["plans"])]
        return _search_cell(part, self._DRAWN)


def from_torch(module, example_inputs, output=None, batch_sizes=(1, 2, 4), crossing=1,
               repetitions=7, link=None):
    """from_torch(module: object, example_inputs: object, output: object = None, \
batch_sizes: object = (1, 2, 4), crossing: int = 1, repetitions: int = 7, link: object = None) \
-> Any

    A torch.nn.Module of yours as a model and its costs, measured here (weir.torch_model)."""
    from weir import torch_model

    return torch_model.from_torch(module, example_inputs, output, batch_sizes, crossing,
                                  repetitions, link)
