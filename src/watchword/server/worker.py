"""The one thread that has films described, one after the other."""

import sys
import threading
import traceback
from contextlib import closing

from watchword.errors import WatchwordError
from watchword.server.caption_process import Teller
from watchword.server.jobs import TRIES, Job
from watchword.server.storage import Shelf
from watchword.server.subprocesses import ChildDied

IDLE_SECONDS = 1.0


class Worker(threading.Thread):
    """Takes the oldest job that waits. Nothing that a film does ends it."""

    def __init__(self, shelf: Shelf, teller: Teller) -> None:
        super().__init__(daemon=True, name="watchword worker")
        self.shelf, self.jobs, self.teller = shelf, shelf.jobs, teller
        self.stopping = threading.Event()
        self.current: str | None = None    # the job in hand; changes only under the jobs' lock

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                if not self._work():
                    self.jobs.wait(IDLE_SECONDS)
            except Exception:  # a full disk, a bug: the next film may fare better
                traceback.print_exc(file=sys.stderr)
                self.stopping.wait(IDLE_SECONDS)

    def stop(self) -> None:
        """The job in hand waits for the next start."""
        self.stopping.set()
        with self.jobs.changed:
            self.jobs.changed.notify_all()
        self.teller.stop()
        if self.is_alive():
            self.join()

    def cancel(self, job: Job) -> None:
        with self.shelf.lock, self.jobs.changed:
            self.jobs.cancel(job)
            if self.current == job.id:
                self.teller.stop()   # and a new one for the next film: the captioner is back in two seconds
            else:
                self.shelf.drop(job)

    def _work(self) -> bool:
        """One job, where there is one."""
        with self.jobs.changed:
            self.jobs.recover()  # one that a full disk kept from ending
            job = self.jobs.begin()
            self.current = job.id if job else None
        if job is None:
            return False
        try:
            self._describe(job)
        except ChildDied as error:
            if self.stopping.is_set():
                self.jobs.give_back(job, job.tries - 1)
            elif error.is_final or job.tries >= TRIES:
                self.jobs.fail(job, f"cannot describe {job.name}: {error}")
            else:
                self.jobs.give_back(job, job.tries)
        except WatchwordError as error:
            self.jobs.fail(job, str(error))
        except Exception as error:  # the child's messages are not believed
            traceback.print_exc(file=sys.stderr)
            self.jobs.fail(job, f"cannot describe {job.name}: {type(error).__name__}: {error}")
        finally:
            with self.jobs.changed:
                self.current = None
        found = self.jobs.find(job.id)
        if found is None or found.state in {"failed", "cancelled"}:
            self.shelf.drop(job)
        return True

    def _describe(self, job: Job) -> None:
        path = self.shelf.upload_of(job)
        if path is None:
            raise WatchwordError(f"cannot describe {job.name}: its file is gone; upload it again")
        with closing(self.teller.tell(path, job.name, job.seconds)) as told:
            for moment in told:
                if moment.description is not None:
                    self.shelf.keep(job, moment.description, moment.evidence)
                elif not self.jobs.reach(job, moment.reached, moment.sentence):
                    return
