# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Services that nothing is wrong with, from the model of Tokio's queues: no poll longer than a tick
of Tokio's timer wheel, workers busy at most for three quarters, connections that come, work, wait
for their client and go. On some machines neighbours take a CPU for a time slice, as the kernel
counts. All numbers are drawn from the seed."""
import math

from tokio_queues import Model, Task

POLL_NS_MAX = 1_000_000
SLICE_NS_MIN, SLICE_NS_MAX = 750_000, 3_000_000  # of Linux' EEVDF and CFS
PLACES = ("svc::accept", "svc::connection", "svc::request", "svc::tick")


class Healthy(Model):
    """Task 1 accepts: each time a connection comes it wakes, and spawns a task for it. A request of
    a connection asks some inner tasks one after the other; ticks wake at the same moment."""

    def __init__(self, seed, until_ns=400_000_000):
        # of each task: its place; of a connection: requests left, inner tasks it has still to ask
        # (None: no request yet, -1: it waits for its client); of an inner task: who waits for it
        self.place, self.left, self.asks, self.askers = {}, {}, {}, {}
        self.lost = {}  # of a task's poll: (ns it was ready without a CPU, ns it was blocked)
        super().__init__(f"healthy {seed}", tasks=1, until_ns=until_ns)

    def begin(self):
        draw = self.random
        self.median_ns = draw.uniform(2_000, 40_000)
        self.spread = draw.uniform(0.4, 1.0)
        mean_ns = self.median_ns * math.exp(self.spread ** 2 / 2) + 500
        busy = draw.uniform(0.02, 0.75) * len(self.workers)
        polls_s = min(busy * 1e9 / mean_ns, 60_000)
        slices_s = draw.choice([0, 2, 10, 40]) # of the whole machine
        self.preempted = slices_s / polls_s
        self.inner = draw.randint(0, 4)  # inner tasks that a request asks, of a pool of them
        self.self_wakes = draw.choice([0, 0, 0.02, 0.2])
        self.place[1] = PLACES[0]
        count = draw.randint(4, 150)
        # polls of a request: its own, and for each inner task that task's and its own again
        self.gap_ns = count * (1 + 2 * self.inner) / (1 - self.self_wakes) * 1e9 / polls_s
        self.life = draw.choice([3, 20, 10_000])  # requests of a connection
        self.tail = draw.choice([1, 1.5, 4])  # of the time that clients think
        self.pool = [self.add(PLACES[2]) for _ in range(max(8, count // 2) if self.inner else 0)]
        for _ in range(draw.choice([0, 1, 8])):
            task = self.add(PLACES[3])
            self.at(draw.randint(0, 5_000_000), self.tick, task, draw.choice([10, 50, 100]))
        for _ in range(count):
            self.at(int(draw.expovariate(1 / 20_000_000)), self.connect)

    def add(self, place):
        task = Task(len(self.tasks) + 1)
        self.tasks.append(task)
        self.place[task.id] = place
        return task

    def connect(self, time):
        self.io_ready(time, self.tasks[0])
        task = self.add(PLACES[1])
        self.left[task.id] = max(1, int(self.random.expovariate(1 / self.life)))
        self.asks[task.id] = None
        self.at(time + 60_000, self.first, task)

    def first(self, time, task):
        """Spawned by the accepting task, whenever that was polled: from the outside."""
        self.events.append((time, "spawn", (task.id,)))
        self.inject(time, task)

    def tick(self, time, task, period_ms):
        self.io_ready(time, task)
        self.at(time + period_ms * 1_000_000, self.tick, task, period_ms)

    def request(self, time, task):
        self.asks[task.id] = self.inner
        self.io_ready(time, task)

    def io_ready(self, time, task):
        self.io.append((time, task))
        if self.driver is not None:
            self.at(time + self.random.randint(2_000, 30_000), self.wake_driver)

    def length(self, task):
        ns = int(min(self.random.lognormvariate(math.log(self.median_ns), self.spread),
                     POLL_NS_MAX)) + 200
        if self.random.random() < self.preempted:
            self.lost[task.id] = self.random.randint(SLICE_NS_MIN, SLICE_NS_MAX), 0
        return ns + sum(self.lost.get(task.id, ()))

    def end(self, time, worker, task):
        start = worker.poll[1]
        super().end(time, worker, task)
        lost = self.lost.pop(task.id, None)
        if lost:
            cpu_ns = time - start - sum(lost)
            self.events.append((time, "cost", (worker.index, start, cpu_ns, lost[0])))

    def wakes_of(self, task, start, end):
        place = self.place[task.id]
        if self.random.random() < self.self_wakes and place != PLACES[0]:
            yield end - 50, task
        elif place == PLACES[1]:
            yield from self.serve(task, start, end)
        elif place == PLACES[2]:
            for asker in self.askers.pop(task.id, []):
                yield self.random.randint(start + 50, end - 50), asker

    def serve(self, task, start, end):
        left = self.asks[task.id]
        if left is None:
            self.asks[task.id] = -1
            self.at(end + int(self.random.expovariate(1 / self.gap_ns)), self.request, task)
        elif left > 0:
            self.asks[task.id] = left - 1
            inner = self.random.choice(self.pool)
            self.askers.setdefault(inner.id, []).append(task)
            yield self.random.randint(start + 50, end - 50), inner
        elif left == 0:
            self.asks[task.id] = -1
            self.left[task.id] -= 1
            think_ns = int(self.gap_ns * self.random.paretovariate(1 + self.tail)
                           * self.tail / (1 + self.tail))
            if self.left[task.id]:
                self.at(end + think_ns, self.request, task)
            else:
                self.at(end - 1, self.leave, task)
                self.at(end + think_ns, self.connect)

    def leave(self, time, task):
        self.events.append((time, "terminate", (task.id,)))

    def place_of(self, task):
        return self.place[task]
