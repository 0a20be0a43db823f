// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place uses the blocking pool, which has few threads: closures queue.
use corpus::{now_ns, Expected, Run, Victims};
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::Duration;

static SIZE: OnceLock<Duration> = OnceLock::new();

corpus::places!(|job| {
    let (from_ns, run) = (now_ns(), job.run.clone());
    let closure = move || {
        run.waited(Victims::Own, now_ns() - from_ns, 0);
        std::thread::sleep(*SIZE.get().expect("drawn"));
    };
    let _ = tokio::task::spawn_blocking(closure).await;
});

fn main() {
    let run = Run::read("pool_full");
    let size = *SIZE.get_or_init(|| run.size_us(500, 50_000));
    run.own_due_ns.store(size.as_nanos() as u64, Ordering::Relaxed);
    let threads = run.within(1, 2) as usize;
    let runtime = run.builder().max_blocking_threads(threads).build().expect("a runtime");
    runtime.block_on(async {
        for one in run.traffic(spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["blocking_pool_exhausted"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Own });
}
