// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: a place drains a full channel, and Tokio's budget ends the poll again and again.
use corpus::{burn, Expected, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static COUNT: OnceLock<usize> = OnceLock::new();

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
    std::hint::black_box(drain(*COUNT.get().expect("drawn")).await);
});

fn main() {
    let run = Run::read("healthy_drain");
    let count = *COUNT.get_or_init(|| run.size(20, 600) as usize);
    run.serve(spawn);
    let size = count as u64;
    run.end(size, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
