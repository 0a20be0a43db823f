// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One runtime a thread, and seven of eight connections of one place are on one of them: its tasks
//! stand in line there, while the other threads have little to do. Each step of the work is short.
use corpus::{burn, cores, now_ns, Expected, Job, Run, Victims};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::task::JoinHandle;

static STEPS: OnceLock<(u64, Duration)> = OnceLock::new();

corpus::places!(|job| {
    let (steps, step) = *STEPS.get().expect("drawn");
    for _ in 0..steps {
        burn(step);
        let from_ns = now_ns();
        tokio::task::yield_now().await;
        job.run.waited(Victims::Own, now_ns() - from_ns, 0);
    }
});

fn spread(place: usize, job: Job) -> JoinHandle<()> {
    let number = cores::next();
    let core = if job.hit && number % 8 != 0 { 0 } else { number / 8 + number };
    cores::serve_on(core, job, spawn, place);
    tokio::spawn(async {})
}

fn main() {
    let run = Run::read("one_hot");
    let (steps, _) = *STEPS.get_or_init(|| {
        let step = Duration::from_micros(run.within(300, 800));
        (run.size(2, 200), step)
    });
    // The tasks measure each wait themselves: a request is late by many that are short, too.
    run.own_due_ns.store(u64::MAX >> 1, Ordering::Relaxed);
    run.serve_by_cores(run.workers.clamp(2, 4), 8, spread);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["worker_imbalance"];
    run.end(steps, Expected { findings, culprit, victims: Victims::Own });
}
