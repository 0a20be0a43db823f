# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A discrete-event model of the queues of Tokio's multi-thread scheduler: a local queue of 256 with
a LIFO slot for each worker, the injection queue, stealing of half a queue, a driver that one parked
worker holds. It writes the events that kymo would have recorded, and says where each task really
stood at each moment. Written from Tokio's documented behaviour, without any code of src."""
import bisect
import collections
import heapq
import random

LOCAL_MAX = 256
LIFO_RUNS_MAX = 3
GLOBAL_EVERY = 61


class Worker:
    def __init__(self, index):
        self.index = index
        self.local = collections.deque()
        self.lifo = None
        self.lifo_runs = 0
        self.tick = 0
        self.is_parked = False
        self.notified = False
        self.poll = None  # (task, start) now
        self.spans = []  # (start, what, task, poll start): what it does from then on


class Task:
    def __init__(self, number):
        self.id = number
        self.is_running = self.is_ready = self.is_woken = False
        self.ready_ns = 0
        self.stands = []  # (since, worker index or None, in the LIFO slot)


class Model:
    """events: (time, name, fields); delays: what is true of each delay from wake to poll."""

    global_every = GLOBAL_EVERY

    def __init__(self, seed, workers=None, tasks=None, until_ns=100_000_000):
        self.random = random.Random(seed)
        self.workers = [Worker(i) for i in range(workers or self.random.randint(1, 8))]
        self.tasks = [Task(i + 1) for i in range(tasks or self.random.randint(8, 80))]
        self.until_ns = until_ns
        self.queue, self.number = [], 0
        self.injection = collections.deque()
        self.driver = None  # worker that waits in it
        self.io = []  # (time, task) not yet seen by the driver
        self.events, self.delays = [], []
        self.long_share = self.random.choice([0.001, 0.01, 0.03])
        self.scale = self.random.choice([0.3, 1, 3])
        self.run()
        self.starts = [[span[0] for span in worker.spans] for worker in self.workers]
        self.by_start = {(one["task"], one["start_ns"]): one for one in self.delays}

    # ---- time ----

    def at(self, time, what, *arguments):
        self.number += 1
        heapq.heappush(self.queue, (time, self.number, what, arguments))

    def run(self):
        for worker in self.workers:
            self.at(worker.index * 100, self.look, worker)
        self.begin()
        while self.queue:
            time, _, what, arguments = heapq.heappop(self.queue)
            if time > self.until_ns:
                break
            what(time, *arguments)
        self.events.sort(key=lambda event: event[0])

    def begin(self):
        for task in self.tasks:
            self.at(self.random.randint(0, 2_000_000), self.arrive, task)

    def note(self, worker, time, what, task=None, start=None):
        worker.spans.append((time, what, task, start))

    # ---- what the program does ----

    def pause(self, least, most):
        """Time that the runtime or the kernel takes."""
        return self.random.randint(least, most)

    def length(self, _task):
        if self.random.random() < self.long_share:
            return self.random.randint(1_000_000, 20_000_000)
        return int(self.random.lognormvariate(9.3, 0.9) * self.scale) + 200

    def wakes_of(self, _task, start, end):
        """[(time, task)] of a poll; drawn one by one, as each is used."""
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 3])):
            when = self.random.randint(start + 50, end - 50)
            yield when, self.random.choice(self.tasks)

    def arrive(self, time, task):
        """Something that a task waits for is there; the driver sees it when it looks."""
        if self.random.random() < 0.3:
            self.inject(time, task)
        else:
            self.io.append((time, task))
            if self.driver is not None:
                self.at(time + self.random.randint(2_000, 30_000), self.wake_driver)
        self.at(time + self.random.randint(300_000, 6_000_000), self.arrive,
                self.random.choice(self.tasks))

    def wake_driver(self, time):
        if self.driver is not None:
            self.unpark(time, self.driver)

    # ---- queues ----

    def stand(self, task, time, place, is_lifo=False):
        task.stands.append((time, place, is_lifo))

    def push(self, time, worker, task):
        if len(worker.local) >= LOCAL_MAX:
            for _ in range(LOCAL_MAX // 2):
                moved = worker.local.popleft()
                self.stand(moved, time, None)
                self.injection.append(moved)
        worker.local.append(task)

    def make_ready(self, time, task, worker, to_lifo):
        task.is_ready, task.ready_ns, task.stands = True, time, []
        self.stand(task, time, worker.index, to_lifo)
        if to_lifo:
            before, worker.lifo = worker.lifo, task
            if before is None:
                return
            task = before
            self.stand(task, time, worker.index)
        self.push(time, worker, task)
        self.notify(time)

    def notify(self, time):
        if any(worker.notified for worker in self.workers):
            return
        parked = [worker for worker in self.workers if worker.is_parked]
        if parked:
            worker = self.random.choice(parked)
            worker.notified = True
            self.events.append((time, "notify", (worker.index, worker is self.driver)))
            self.note(worker, time, "notified")
            self.at(time + self.pause(3_000, 60_000), self.unpark, worker)

    def wake(self, time, worker, waker, task):
        self.events.append((time, "wake", (waker.id if waker else 0, task.id, worker.index)))
        if task.is_running:
            task.is_woken = True
        elif not task.is_ready:
            self.make_ready(time, task, worker, True)

    def inject(self, time, task):
        """A thread outside of the runtime wakes it."""
        self.events.append((time, "wake", (0, task.id, 255)))
        if task.is_running:
            task.is_woken = True
        elif not task.is_ready:
            task.is_ready, task.ready_ns, task.stands = True, time, []
            self.stand(task, time, None)
            self.injection.append(task)
            self.notify(time)

    # ---- a worker ----

    def look(self, time, worker):
        """Between two polls."""
        if worker.is_parked or worker.poll:
            return
        worker.tick += 1
        task = None
        if worker.tick % self.global_every == 0:
            if self.io:
                self.at(self.turn(time, worker), self.look, worker)
                return
            task = self.injection.popleft() if self.injection else None
        if task is None and worker.lifo is not None:
            task, worker.lifo = worker.lifo, None
            worker.lifo_runs += 1
            if worker.lifo_runs > LIFO_RUNS_MAX and worker.local:
                self.stand(task, time, worker.index)
                worker.local.append(task)
                task, worker.lifo_runs = None, 0
        else:
            worker.lifo_runs = 0
        if task is None and worker.local:
            task = worker.local.popleft()
        if task is None and self.injection:
            task = self.injection.popleft()
        if task is None:
            task = self.steal(time, worker)
        if task is None:
            self.park(time, worker)
            return
        self.at(time + self.pause(80, 250), self.start, worker, task)
        worker.poll = (task, None)

    def steal(self, time, worker):
        others = [other for other in self.workers if other is not worker and other.local]
        if not others:
            return None
        victim = self.random.choice(others)
        count = len(victim.local) - len(victim.local) // 2
        moved = [victim.local.popleft() for _ in range(count)]
        for task in moved:
            self.stand(task, time, worker.index)
        for task in moved[:-1]:
            worker.local.append(task)
        return moved[-1]

    def park(self, time, worker):
        worker.is_parked, worker.notified = True, False
        self.events.append((time, "park", (worker.index, self.driver is None)))
        self.note(worker, time, "parked")
        if self.driver is None:
            self.driver = worker
            if self.io:
                self.at(time + 1_000, self.unpark, worker)

    def unpark(self, time, worker):
        if not worker.is_parked:
            return
        worker.is_parked, worker.notified = False, False
        self.events.append((time, "unpark", (worker.index,)))
        self.note(worker, time, "runtime")
        if self.driver is worker:
            self.driver = None
            time = self.turn(time + 200, worker)
        self.at(time + 300, self.look, worker)

    def turn(self, time, worker):
        """The driver wakes tasks one after the other. Returns when that is over."""
        ready, self.io = self.io, []
        for i, (_, task) in enumerate(ready):
            self.at(time + 20 * i, self.wake, worker, None, task)
        return time + 20 * len(ready) + 100

    def start(self, time, worker, task):
        end = time + self.length(task)
        self.events.append((time, "start", (worker.index, task.id)))
        self.note(worker, time, "poll", task.id, time)
        self.delays.append({"task": task.id, "ready_ns": task.ready_ns, "start_ns": time,
                            "worker": worker.index, "stands": task.stands})
        task.is_running, task.is_ready, task.is_woken = True, False, False
        worker.poll = (task, time)
        for when, woken in self.wakes_of(task, time, end):
            self.at(when, self.wake_inside, worker, task, woken)
        self.at(end, self.end, worker, task)

    def wake_inside(self, time, worker, waker, task):
        self.wake(time, worker, waker, task)

    def end(self, time, worker, task):
        self.events.append((time, "end", (worker.index,)))
        self.note(worker, time, "runtime")
        task.is_running, worker.poll = False, None
        if task.is_woken:
            self.make_ready(time, task, worker, False)
        self.at(time + self.pause(50, 200), self.look, worker)

    # ---- what is true ----

    def truth(self, delay):
        """[(from, to, class, start of the poll it stood behind)] of a delay, without gaps."""
        parts, stands = [], delay["stands"]
        for i, (since, place, _) in enumerate(stands):
            until = stands[i + 1][0] if i + 1 < len(stands) else delay["start_ns"]
            worker = self.workers[delay["worker"] if place is None else place]
            parts += self.spans_of(worker, since, until)
        return parts

    def spans_of(self, worker, since, until):
        at = max(bisect.bisect_right(self.starts[worker.index], since) - 1, 0)
        parts = []
        while at < len(worker.spans) and since < until:
            _, what, task, start = worker.spans[at]
            end = worker.spans[at + 1][0] if at + 1 < len(worker.spans) else until
            end = min(end, until)
            if end > since:
                parts.append((since, end, what, start))
                since = end
            at += 1
        return parts


class Repeated(Model):
    """The same program again and again, whatever its polls take: what a poll does is drawn for its
    task and its number alone, and what comes from outside comes at the same time. The polls of the
    tasks of one place, every eighth task, take at most cap_ns.

    outside: another thread wakes each task once. inside: at the start, and tasks wake each other
    from then on. mixed: each once, and what these wake. The runtime always takes the same time."""
    global_every = 1 << 60
    WAKES = {"outside": [0], "inside": [0, 1, 1, 2], "mixed": [0, 0, 0, 1, 1]}

    def __init__(self, seed, workers, kind, cap_ns=None, tasks=400, until_ns=100_000_000):
        self.seed, self.kind, self.cap_ns, self.polls = seed, kind, cap_ns, {}
        super().__init__(seed, workers, tasks, until_ns)

    def pause(self, least, most):
        return (least + most) // 2

    @staticmethod
    def is_capped(task):
        return task % 8 == 0

    def begin(self):
        for task in self.tasks:
            draw = random.Random(f"{self.seed}/{task.id}")
            at = 1000 + task.id if self.kind == "inside" else draw.randint(0, self.until_ns // 2)
            self.at(at, self.inject, task)

    def drawn(self, task):
        """(random numbers of this poll, its length without a cap)"""
        draw = random.Random(f"{self.seed}/{task.id}/{self.polls.get(task.id, 0)}")
        length = int(draw.lognormvariate(10.5, 0.7)) + 200
        if self.is_capped(task.id) and draw.random() < 0.5:
            length = draw.randint(1_000_000, 5_000_000)
        return draw, length

    def length(self, task):
        length = self.drawn(task)[1]
        return min(length, self.cap_ns) if self.cap_ns and self.is_capped(task.id) else length

    def wakes_of(self, task, start, end):
        draw, length = self.drawn(task)
        self.polls[task.id] = self.polls.get(task.id, 0) + 1
        return [(start + draw.randint(50, length - 50) * (end - start) // length,
                 draw.choice(self.tasks)) for _ in range(draw.choice(self.WAKES[self.kind]))]
