// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: a source fills a short channel as fast as it can, and a sink takes from it at its own
//! pace: the channel is always full, by design, and no request waits for the source.
use corpus::{burn, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

async fn fill(run: Arc<Run>, sink: mpsc::Sender<u64>) {
    let mut item = 0;
    while !run.is_over() && sink.send(item).await.is_ok() {
        item += 1;
    }
}

async fn store(mut source: mpsc::Receiver<u64>, pace: Duration) {
    while let Some(item) = source.recv().await {
        std::hint::black_box(item);
        burn(Duration::from_micros(20));
        tokio::time::sleep(pace).await;
    }
}

fn main() {
    let run = Run::read("healthy_source");
    let room = run.within(1, 16);
    let pace = run.size_us(1_000, 30_000);
    let runtime = run.runtime();
    runtime.block_on(async {
        let (sink, source) = mpsc::channel(room as usize);
        tokio::spawn(store(source, pace));
        tokio::spawn(fill(run.clone(), sink));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(room, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
