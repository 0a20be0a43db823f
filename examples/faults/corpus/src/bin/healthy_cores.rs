// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: one runtime a thread, and each has as many connections as the others.
use corpus::{burn, cores, Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::task::JoinHandle;

static STEP: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    burn(*STEP.get().expect("drawn"));
    tokio::task::yield_now().await;
});

fn spread(place: usize, job: Job) -> JoinHandle<()> {
    cores::serve_on(cores::next(), job, spawn, place);
    tokio::spawn(async {})
}

fn main() {
    let run = Run::read("healthy_cores");
    let step = *STEP.get_or_init(|| run.size_us(10, 200));
    run.serve_by_cores(run.workers.clamp(2, 4), 8, spread);
    let size = step.as_micros() as u64;
    run.end(size, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
