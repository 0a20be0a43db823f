// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place wakes a partner and then computes: the partner sits in the worker's LIFO slot, beside
//! workers with nothing to do.
use corpus::{burn, now_ns, Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc;

static SIZE: OnceLock<Duration> = OnceLock::new();
static PARTNER: OnceLock<mpsc::Sender<u64>> = OnceLock::new();

corpus::places!(|job| {
    let _ = PARTNER.get().expect("started").try_send(now_ns());
    burn(*SIZE.get().expect("drawn"));
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
    let findings = &["lifo_starvation", "cpu_heavy_poll"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
