"""torch in half the time, for a process that looks, speaks and ends."""

import sys
from types import ModuleType

FOR_COMPILERS = "torch._meta_registrations"


def import_torch_quickly() -> None:
    """Imports torch without the shape rules that its compilers and fake tensors need: 1.2 CPU seconds instead of 2.1.

    An empty module stands in their place, so nothing may be compiled or exported afterwards: for our own command's
    process alone. Whoever imports watchword gets torch whole.
    """
    if "torch" not in sys.modules:
        sys.modules[FOR_COMPILERS] = ModuleType(FOR_COMPILERS)
    import torch  # noqa: F401
