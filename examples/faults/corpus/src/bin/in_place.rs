// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place calls block_in_place() for every request: each needs another thread to take the worker.
use corpus::{Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static SIZE: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    tokio::task::block_in_place(|| std::thread::sleep(*SIZE.get().expect("drawn")));
});

fn main() {
    let run = Run::read("in_place");
    let size = *SIZE.get_or_init(|| run.size_us(100, 10_000));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["block_in_place_storm"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Others });
}
