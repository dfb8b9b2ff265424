# The package `weir`: what the extension has, and modules beside it that work with the user's own
# framework (`python -m weir.profile_torch`).
# SPDX-License-Identifier: Apache-2.0
from weir._weir import *  # noqa: F403
from weir._weir import __doc__, __version__  # noqa: F401
