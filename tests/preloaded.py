"""`watchword` commands and Python scripts in forks of one process that has imported everything once.

A fresh interpreter spends three seconds on imports before a command begins. `Preloaded` starts one, lets it import the
package, and forks it for every command: own process, own working directory, own environment, nothing shared but code.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Preloaded:
    """A process that runs commands; `with` ends it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        words = [sys.executable, __file__]
        self.process = subprocess.Popen(words, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Preloaded":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()

    def run(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """What `python ARGUMENTS` does: `-m watchword ...` or `-c CODE`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.TemporaryDirectory() as scratch:
            outputs = [Path(scratch) / name for name in ("stdout", "stderr")]
            order = {"arguments": arguments, "folder": str(folder), "env": dict(env), "outputs": [*map(str, outputs)]}
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            status = int(self.process.stdout.readline())
            out, err = (path.read_text("utf-8") for path in outputs)
        return subprocess.CompletedProcess(list(arguments), status, out, err)


def serve() -> None:
    """Forks for every line of stdin; prints the exit status of each."""
    import watchword.captioning.pipeline
    import watchword.cli.main
    import watchword.training.loop  # noqa: F401

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            carry_out(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def carry_out(order: dict[str, Any]) -> None:
    """In the fork; never returns."""
    status = 1
    try:
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["env"])
        for descriptor, path in ((0, os.devnull), *zip((1, 2), order["outputs"], strict=True)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
        flag, word, *rest = order["arguments"]
        if flag == "-c":
            sys.argv = ["-c", *rest]
            exec(compile(word, "<document>", "exec"), {"__name__": "__main__"})
        else:
            assert (flag, word) == ("-m", "watchword")
            sys.argv = ["watchword", *rest]
            sys.modules["watchword.cli.main"].main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
