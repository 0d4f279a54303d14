"""Threads for sync tools: one per job that runs, reused, and daemons, so that a hung tool never holds up the exit.

The pool queues nothing. A job that waited in a queue would use up its deadline before it began.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Threads:
    """Runs jobs that do not raise, each at once in a thread of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Job | None]] = []
        self._closed = False

    def run(self, job: Job) -> None:
        """Run *job* now, in an idle thread or a new one.

        Raises:
            RuntimeError: The system gives no more threads; *job* was not run.
        """
        with self._lock:
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=self._name, daemon=True).start()
        queue.put(job)

    def close(self) -> None:
        """Let idle threads end now, and busy ones when their job does. Waits for nothing."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for queue in idle:
            queue.put(None)

    def _work(self, queue: "SimpleQueue[Job | None]") -> None:
        while (job := queue.get()) is not None:
            job()
            del job  # an idle thread keeps nothing of the last call alive
            with self._lock:
                if self._closed:
                    return
                self._idle.append(queue)
