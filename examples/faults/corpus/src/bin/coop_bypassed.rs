// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place drains a full channel under tokio::task::unconstrained(): Tokio's budget cannot end the
//! poll.
use corpus::{burn, has_samples, thread_cpu_ns, Expected, Run, Victims};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

static COUNT: OnceLock<usize> = OnceLock::new();
static USED_NS: AtomicU64 = AtomicU64::new(0);

async fn drain(count: usize) -> u64 {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(count);
    for item in 0..count as u64 {
        let _ = sender.try_send(item);
    }
    drop(sender);
    let mut sum = 0;
    while let Some(item) = receiver.recv().await {
        burn(Duration::from_micros(2));
        sum += item;
    }
    sum
}

corpus::places!(|job| {
    let from_ns = thread_cpu_ns();
    let drained = tokio::task::unconstrained(drain(*COUNT.get().expect("drawn"))).await;
    std::hint::black_box(drained);
    USED_NS.fetch_add(thread_cpu_ns().saturating_sub(from_ns), Ordering::Relaxed);
});

fn main() {
    let run = Run::read("coop_bypassed");
    let count = *COUNT.get_or_init(|| run.size(150, 15_000) as usize);
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into(), "drain".into()];
    let findings: &[&str] = if has_samples(USED_NS.load(Ordering::Relaxed)) {
        &["coop_budget_bypassed"]
    } else {
        &["coop_budget_bypassed", "cpu_heavy_poll"]
    };
    run.end(count as u64, Expected { findings, culprit, victims: Victims::All });
}
