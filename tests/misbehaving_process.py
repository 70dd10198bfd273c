"""A child that does what a hostile video might make a decoder do: python -m misbehaving_process."""

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from watchword.errors import WatchwordError
from watchword.server.subprocesses import Message, serve_requests


def answer(question: Message) -> Iterator[Message]:
    match question["do"]:
        case "echo":
            yield {"said": question["words"], "pid": os.getpid()}
        case "crash":
            yield {"so far": "good"}
            ctypes.string_at(0)
        case "spin":
            while True:
                pass
        case "swell":
            held = [bytearray(16 << 20) for _ in range(64)]
            yield {"held": len(held)}
        case "write":
            try:
                Path(question["path"]).write_text("I was here")
            except OSError as error:
                yield {"errno": error.errno}
        case "print":
            print("what a library prints", flush=True)
            os.write(1, b"what C prints\n")
            yield {"said": "hello"}
        case "sleep":
            yield {"said": "good night"}
            time.sleep(60)
        case "babble":
            for descriptor in range(3, 64):
                try:
                    os.write(descriptor, b"{not json}\n")
                except OSError:
                    continue
            time.sleep(60)
        case "refuse":
            raise WatchwordError("cannot read it: it is a poem")
        case "break":
            raise ZeroDivisionError("a bug")


if __name__ == "__main__":
    serve_requests(answer, memory_bytes=256 << 20)
    sys.exit(0)
