# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`kymo report` on services of the model that nothing is wrong with: it names no cause above info.
KYMO_MODEL_TRACES says how many (default 12); `make check-all` reads 300."""
import json
import os
import sys

from cli_case import Cli, main
from healthy_model import PLACES, Healthy
from test_why import write

COUNT = int(os.environ.get("KYMO_MODEL_TRACES", 12))


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


class ModelAlarms(Cli):
    def named(self, model):
        path = write(model, model.place_of).save(self.dir / "trace")
        found = json.loads(self.run_kymo("report", "--json", path).out)["findings"]
        return [(one["id"], one["statement"]) for one in found if one["severity"] != "info"]

    def test_no_cause_is_above_info_where_nothing_is_wrong(self):
        alarms = []
        for seed in range(COUNT):
            named = self.named(Healthy(seed))
            if named:
                alarms.append((seed, named))
        self.assertLessEqual(len(alarms), COUNT // 100, alarms)

    def test_the_same_services_with_polls_that_block_are_not_healthy(self):
        for seed in range(COUNT):
            model = Sick(seed)
            named = self.named(model)
            if model.served >= 300:
                # neighbours that take the only CPU may do as much harm
                self.assertIn("blocking_call", [name for name, _ in named], seed)


if __name__ == "__main__":
    sys.exit(main())
