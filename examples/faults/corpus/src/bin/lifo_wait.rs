// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place wakes a partner and then computes: the partner sits in the worker's LIFO slot, beside
//! workers with nothing to do.
use corpus::{burn, now_ns, Expected, Run, Victims};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc;

static SIZE: OnceLock<Duration> = OnceLock::new();
/// Workers that such a poll keeps: where it may be all of them, the slot is not the cause.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
static AT_ONCE_MAX: AtomicUsize = AtomicUsize::new(0);
static PARTNER: OnceLock<mpsc::Sender<u64>> = OnceLock::new();

corpus::places!(|job| {
    let at_once = AT_ONCE.fetch_add(1, Ordering::Relaxed) + 1;
    AT_ONCE_MAX.fetch_max(at_once, Ordering::Relaxed);
    let _ = PARTNER.get().expect("started").try_send(now_ns());
    burn(*SIZE.get().expect("drawn"));
    AT_ONCE.fetch_sub(1, Ordering::Relaxed);
});

fn main() {
    let run = Run::read("lifo_wait");
    let size = *SIZE.get_or_init(|| run.size_us(300, 30_000));
    let (sender, mut words) = mpsc::channel::<u64>(64);
    PARTNER.get_or_init(|| sender);
    let runtime = run.runtime();
    let measure = run.clone();
    runtime.block_on(async {
        tokio::spawn(async move {
            while let Some(sent_ns) = words.recv().await {
                measure.waited(Victims::Own, now_ns() - sent_ns, 0);
            }
        });
        for one in run.traffic(spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit].into()];
    let has_idle_worker = AT_ONCE_MAX.load(Ordering::Relaxed) < run.workers;
    let findings: &[&str] = if has_idle_worker {
        &["lifo_slot_starvation"]
    } else {
        &["lifo_slot_starvation", "cpu_heavy_poll"]
    };
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
