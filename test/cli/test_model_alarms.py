# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo report` on services of the model that nothing is wrong with: it names no cause above info.
KYMO_MODEL_TRACES says how many (default 8); `make check-all` reads 100, `make soak` 300."""
import concurrent.futures
import json
import os
import subprocess
import sys

from cli_case import KYMO, Cli, main
from healthy_model import PLACES, Healthy
from test_why import write

COUNT = int(os.environ.get("KYMO_MODEL_TRACES", 8))


class Sick(Healthy):
    """Every hundredth poll of a connection is blocked for ten milliseconds."""
    BLOCKED_NS = 10_000_000

    def __init__(self, *how):
        self.served = 0
        super().__init__(*how)

    def length(self, task):
        self.served += self.place[task.id] == PLACES[1]
        if self.place[task.id] == PLACES[1] and self.served % 100 == 0:
            self.lost[task.id] = 0, self.BLOCKED_NS
        return super().length(task)


def reported(kind, seed, folder):
    """(polls of the place that may be sick, [(id, statement)] above info). In a process of its
    own: the model is what takes long."""
    model = kind(seed)
    path = write(model, model.place_of).save(folder / f"{kind.__name__}-{seed}")
    done = subprocess.run([KYMO, "report", "--json", path], capture_output=True, check=True)
    found = json.loads(done.stdout)["findings"]
    path.unlink()
    return (getattr(model, "served", 0),
            [(one["id"], one["statement"]) for one in found if one["severity"] != "info"])


class ModelAlarms(Cli):
    def of_all(self, kind):
        """What is said of the traces of this kind, by seed."""
        with concurrent.futures.ProcessPoolExecutor() as pool:
            return list(pool.map(reported, [kind] * COUNT, range(COUNT), [self.dir] * COUNT))

    def test_no_cause_is_above_info_where_nothing_is_wrong(self):
        alarms = [(seed, named) for seed, (_, named) in enumerate(self.of_all(Healthy)) if named]
        self.assertLessEqual(len(alarms), COUNT // 100, alarms)

    def test_the_same_services_with_polls_that_block_are_not_healthy(self):
        for seed, (served, named) in enumerate(self.of_all(Sick)):
            if served >= 300:
                # neighbours that take the only CPU may do as much harm
                self.assertIn("blocking_call", [name for name, _ in named], seed)


if __name__ == "__main__":
    sys.exit(main())
