# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What dial9's red-flag scan says of a run of the corpus.

The scan of the published crate dial9-viewer reads the same recording, as `kymo convert` writes it
for dial9. It looks for fields of spans that its own library does not return any more, and dies on
every trace with events of a program: here it gets an empty list instead.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import dial9_viewer  # noqa: E402

ICONS = {"🔴": "critical", "🟡": "warning"}
# What a check can be about, in kymo's ids; a long poll counts as each cause of long polls.
POLLS = {"allocation_burst", "block_in_place", "blocking_call", "coop_budget_bypassed",
         "cpu_heavy_poll", "driver_starved", "huge_drop", "lifo_slot_starvation", "lock_convoy",
         "log_writing", "nested_block_on", "page_fault_storm", "redundant_wakes"}
CAUSES = {"long-poll": POLLS, "task-leak": {"task_leak"}, "sched-delay": {"overload"},
          "blocking-calls": {"blocking_call", "lock_convoy", "log_writing"},
          "queue-depth": {"overload", "queue_growth"}, "worker-imbalance": {"worker_imbalance"},
          "cpu-contention": {"cpu_starvation", "cgroup_throttled", "process_stopped"},
          "kernel-sched-wait": {"cpu_starvation", "cgroup_throttled", "process_stopped"}}


class Peer:
    def __init__(self, kymo):
        skills = dial9_viewer.skills()
        self.kymo = kymo
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kymo-peer-"))
        shutil.copytree(skills / "dial9-toolkit/scripts", self.folder, dirs_exist_ok=True)
        text = (skills / "dial9-red-flags/scripts/red_flag_scan.js").read_text()
        mended = text.replace("const { spansByWorker: sWorker } = spanResult;",
                              "const sWorker = spanResult.spansByWorker || {};")
        assert mended != text, "the scan is another one"
        (self.folder / "red_flag_scan.js").write_text(mended)
        self.rows = []

    def flags(self, traces):
        """(severity, check), worst first; without those that are information."""
        path = self.folder / "trace.bin.gz"
        subprocess.run([self.kymo, "convert", "--force", traces, "-o", path], check=True,
                       capture_output=True)
        said = subprocess.run(["node", self.folder / "red_flag_scan.js", path], check=True,
                              capture_output=True, text=True, timeout=300).stdout
        found = re.findall(r"(?m)^(\S+) \[([a-z-]+)\]", said)
        return [(ICONS[icon], check) for icon, check in found if icon in ICONS]

    def judge(self, statement, traces):
        flags = self.flags(traces)
        wanted = set(statement["findings"])
        if statement["verdict"] == "healthy":
            result = "alarm" if flags else "right"
        elif not flags:
            result = "missed" if statement["verdict"] == "fault" else "withheld"
        elif CAUSES.get(flags[0][1], set()) & wanted:
            result = "right"
        else:
            result = "later" if any(CAUSES.get(check, set()) & wanted for _, check in flags) \
                else "wrong"
        self.rows.append((statement["verdict"], result))
        return result, sorted({check for _, check in flags})

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)
