"""The thread that captions the videos of the queue, one after the other."""

import sys
import threading
import traceback
from contextlib import closing

from watchword.errors import WatchwordError
from watchword.server.caption_process import CaptionProcess
from watchword.server.jobs import TRIES, Job
from watchword.server.storage import Storage
from watchword.server.subprocesses import ProcessDied

IDLE_SECONDS = 1.0


class Worker(threading.Thread):
    """Takes the oldest waiting job. No video ends it."""

    def __init__(self, storage: Storage, captioner: CaptionProcess) -> None:
        super().__init__(daemon=True, name="watchword worker")
        self.storage, self.jobs, self.captioner = storage, storage.jobs, captioner
        self.stopping = threading.Event()
        self.current: str | None = None  # the current job; changes only under the jobs' lock

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                if not self._work():
                    self.jobs.wait(IDLE_SECONDS)
            except Exception:  # a full disk or a bug: the next video may succeed
                traceback.print_exc(file=sys.stderr)
                self.stopping.wait(IDLE_SECONDS)

    def stop(self) -> None:
        """The current job waits for the next start."""
        self.stopping.set()
        with self.jobs.changed:
            self.jobs.changed.notify_all()
        self.captioner.stop()
        if self.is_alive():
            self.join()

    def cancel(self, job: Job) -> None:
        with self.storage.lock, self.jobs.changed:
            self.jobs.cancel(job)
            if self.current == job.id:
                self.captioner.stop()  # a new process takes two seconds to start
            else:
                self.storage.drop(job)

    def _work(self) -> bool:
        """One job, if one waits."""
        with self.jobs.changed:
            self.jobs.recover()  # a job whose end a full disk prevented
            job = self.jobs.begin()
            self.current = job.id if job else None
        if job is None:
            return False
        try:
            self._describe(job)
        except ProcessDied as error:
            if self.stopping.is_set():
                self.jobs.requeue(job, job.tries - 1)
            elif error.is_final or job.tries >= TRIES:
                self.jobs.fail(job, f"cannot describe {job.name}: {error}")
            else:
                self.jobs.requeue(job, job.tries)
        except WatchwordError as error:
            self.jobs.fail(job, str(error))
        except Exception as error:  # messages of the process are not trusted
            traceback.print_exc(file=sys.stderr)
            self.jobs.fail(job, f"cannot describe {job.name}: {type(error).__name__}: {error}")
        finally:
            with self.jobs.changed:
                self.current = None
        found = self.jobs.find(job.id)
        if found is None or found.state in {"failed", "cancelled"}:
            self.storage.drop(job)
        return True

    def _describe(self, job: Job) -> None:
        path = self.storage.upload_of(job)
        if path is None:
            raise WatchwordError(f"cannot describe {job.name}: its file is missing; upload it again")
        with closing(self.captioner.describe(path, job.name, job.seconds)) as updates:
            for update in updates:
                if update.description is not None:
                    self.storage.keep(job, update.description, update.explanation)
                elif not self.jobs.reach(job, update.reached, update.caption):
                    return
