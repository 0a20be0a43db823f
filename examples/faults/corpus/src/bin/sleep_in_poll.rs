// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place sleeps in its poll: std::thread::sleep() where tokio::time::sleep() was meant.
use corpus::{Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static SIZE: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    std::thread::sleep(*SIZE.get().expect("drawn"));
});

fn main() {
    let run = Run::read("sleep_in_poll");
    let size = *SIZE.get_or_init(|| run.size_us(300, 30_000));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["blocking_call"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
