// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place computes for long in one poll.
use corpus::{burn, Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static SIZE: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    burn(*SIZE.get().expect("drawn"));
});

fn main() {
    let run = Run::read("cpu_poll");
    let size = *SIZE.get_or_init(|| run.size_us(300, 30_000));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["cpu_heavy_poll"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
