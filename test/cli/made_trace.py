# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A trace that a test makes event by event, of moments since its start."""
from cli_case import Cli
from trace_maker import Trace

START_NS = 1_000_000_000
WORKER = ("worker_id", "VARINT")


class MadeTrace(Cli):
    """KIND, ORIGIN: of a poll and a wake that name none; ORIGIN None: no wake has that field."""
    METADATA, KIND, ORIGIN = {}, "svc::task", None

    def setUp(self):
        super().setUp()
        self.trace = Trace().metadata(pid=1, **self.METADATA)

    def event(self, name, at, *fields):
        self.trace.event(name, START_NS + at, *fields)

    def poll(self, at, length, task, name=None, worker=0):
        """length 0: it has no end."""
        self.event("PollStartEvent", at, (*WORKER, worker), ("task_id", "VARINT", task),
                   ("spawn_loc", "STRING", (name or self.KIND).encode()))
        if length:
            self.event("PollEndEvent", at + length, (*WORKER, worker))

    def wake(self, at, task, worker=0, waker=0, origin=None):
        origin = self.ORIGIN if origin is None else origin
        self.event("WakeEventEvent", at, ("waker_task_id", "VARINT", waker),
                   ("woken_task_id", "VARINT", task), ("target_worker", "U8", worker),
                   *([] if origin is None else [("origin", "U8", origin)]))
