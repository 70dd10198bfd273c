"""Importing torch in half the time, for a process that captions and ends."""

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

    Threads sleep while they wait for each other (OMP_WAIT_POLICY): spinning is hardly faster on idle cores (2.1 s, not
    2.2), and on busy ones it costs 6 to 10 CPU seconds instead of 2.5.
    """
    if "torch" not in sys.modules:
        sys.modules[FOR_COMPILERS] = STAND_IN
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import torch  # noqa: F401


def leave(code: int) -> NoReturn:
    """Ends the command's process, without the third of a second that unloading torch takes.

    By then every file is closed and every thread joined; only printed text may still wait to be written.
    """
    if sys.modules.get(FOR_COMPILERS) is STAND_IN:
        with suppress(OSError):  # the reader is gone: Python handles it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
