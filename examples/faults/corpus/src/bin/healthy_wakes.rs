// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: a place wakes a partner, steps aside for it, and then works in short steps.
use corpus::{burn, now_ns, Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc;

static STEPS: OnceLock<u64> = OnceLock::new();
static PARTNER: OnceLock<mpsc::Sender<u64>> = OnceLock::new();

corpus::places!(|job| {
    let _ = PARTNER.get().expect("started").try_send(now_ns());
    for _ in 0..*STEPS.get().expect("drawn") {
        tokio::task::yield_now().await;
        burn(Duration::from_micros(100));
    }
});

fn main() {
    let run = Run::read("healthy_wakes");
    let steps = *STEPS.get_or_init(|| run.size(1, 10));
    let (sender, mut words) = mpsc::channel::<u64>(64);
    PARTNER.get_or_init(|| sender);
    let runtime = run.runtime();
    let measure = run.clone();
    runtime.block_on(async {
        tokio::spawn(async move {
            while let Some(sent_ns) = words.recv().await {
                measure.waited(Victims::Others, now_ns() - sent_ns, 0);
            }
        });
        for one in run.traffic(spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(steps, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
