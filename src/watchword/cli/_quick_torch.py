"""torch in half the time, for a process that looks, speaks and ends."""

import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import NoReturn

FOR_COMPILERS = "torch._meta_registrations"
STAND_IN = ModuleType(FOR_COMPILERS)


def import_torch_quickly() -> None:
    """Imports torch without the shape rules that its compilers and fake tensors need: 1.2 CPU seconds instead of 2.1.

    An empty module stands in their place, so nothing may be compiled or exported afterwards: for our own command's
    process alone. Whoever imports watchword gets torch whole.

    Its threads sleep when they wait for each other. Waiting awake is hardly quicker on idle cores (2.1 s for 2.2), and
    where others work too a thread may wait for one that has no core: 6 to 10 CPU seconds for 2.5.
    """
    if "torch" not in sys.modules:
        sys.modules[FOR_COMPILERS] = STAND_IN
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch  # noqa: F401


def leave(code: int) -> NoReturn:
    """Ends the command's process. Where torch came in quickly it goes quickly: taking it apart is a third of a second.

    By then every file is closed and every thread joined; only what was printed may still wait to be written.
    """
    if sys.modules.get(FOR_COMPILERS) is STAND_IN:
        with suppress(OSError):  # nobody reads on: Python knows what to say and to answer
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
