// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: work that takes all the CPU time it can get on one task, and yields after each short
//! step.
use corpus::{burn, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;

async fn transcode(run: Arc<Run>, step: Duration) {
    while !run.is_over() {
        burn(step);
        tokio::task::yield_now().await;
    }
}

fn main() {
    let run = Run::read("healthy_cpu");
    let step = run.size_us(5, 200);
    let workers = run.workers.max(2);
    let runtime = run.builder().worker_threads(workers).build().expect("a runtime");
    runtime.block_on(async {
        tokio::spawn(transcode(run.clone(), step));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let size = step.as_micros() as u64;
    run.end(size, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
