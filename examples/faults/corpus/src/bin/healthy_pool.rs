// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: a place does its file work on the blocking pool, which has threads enough.
use corpus::{Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static SIZE: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    let closure = || std::thread::sleep(*SIZE.get().expect("drawn"));
    let _ = tokio::task::spawn_blocking(closure).await;
});

fn main() {
    let run = Run::read("healthy_pool");
    let size = *SIZE.get_or_init(|| run.size_us(100, 10_000));
    run.serve(spawn);
    let size = size.as_micros() as u64;
    run.end(size, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
