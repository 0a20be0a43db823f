# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a request of the echo server costs once the recorder has settled: streaming to disk.

The rows of `end-to-end` hold start, end and every page of the ring touched for the first time. A
service pays those once; what it pays from then on is measured here: each server is warmed up until
the ring has come round, then short loads go round among the variants.
"""
from . import flight
from .end_to_end import EVENTS_ALONE, EVENTS_ALONE_OPTIONS, share_row
from .flight import CONNECTIONS, EVENTS, LOADS, REQUESTS
from .programs import Broken, check_trace, stored_bytes
from .rows import median_interval, row

WARM_UP = 900_000  # some 40 bytes each: more than the default ring
DIAL9_BYTES_LEAST = 4  # a request; it takes some 11


class Programs(flight.Programs):
    variants = ("plain", "kymo", EVENTS_ALONE, "dial9+gzip")
    warm_up = WARM_UP

    def __init__(self, context):
        self.context = context
        self.plain = context.crate("tokio/plain")
        self.dial9 = context.crate("tokio/dial9")

    def command(self, variant, directory):
        count = str((1 + LOADS) * CONNECTIONS + 1)
        echo = (self.dial9 if variant == "dial9+gzip" else self.plain) / "echo"
        if variant.startswith("kymo"):
            options = EVENTS_ALONE_OPTIONS if variant == EVENTS_ALONE else ()
            return ([self.context.kymo, "run", "--quiet", *options, "-o", directory, "--", echo,
                     count], None, echo)
        if variant == "dial9+gzip":
            return ([echo, count], {"DIAL9_BENCH_DIR": str(directory), "DIAL9_BENCH_GZIP": "1"},
                    echo)
        return ([echo, count], None, echo)

    def check(self, variant, directory):
        requests = WARM_UP + LOADS * REQUESTS
        if variant.startswith("kymo"):
            check_trace(self.context.kymo, directory, dict.fromkeys(EVENTS, requests))
        elif variant == "dial9+gzip":
            if stored_bytes(directory, ".gz") < DIAL9_BYTES_LEAST * requests:
                raise Broken("dial9 recorded too little of the echo server")


def rows(context):
    figures = flight.measure(Programs(context), "steady")

    def added(variant):
        return [found["cpu_ns"] - plain["cpu_ns"]
                for found, plain in zip(figures[variant], figures["plain"])]

    peer = added("dial9+gzip")
    result = []
    for variant, title in (("kymo", "echo, ring full once: kymo run"),
                           (EVENTS_ALONE, "echo, ring full once: events alone, no stacks:")):
        own = added(variant)
        result += [row(f"{title} adds, CPU of all processes per request", own, "ns", 250,
                       median_interval(peer)[0]),
                   share_row(f"{title} beside dial9 with its gzip stage", own, peer, 0.333)]
    return result
