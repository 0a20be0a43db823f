// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work of many kinds, for whoever samples its stacks: `stacks [ROUNDS]`. Tasks and blocking
//! threads that sort, hash, format, allocate, copy, lock, send, read the clock, panic and recurse.
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

fn hash(round: u64) -> u64 {
    let mut counts: HashMap<String, u64> = HashMap::new();
    for i in 0..2_000u64 {
        *counts.entry(format!("key {} of {:x}", i % 300, round)).or_default() += i;
    }
    counts.values().sum()
}

fn sort(round: u64) -> u64 {
    let mut numbers: Vec<u64> =
        (0..20_000u64).map(|i| i.wrapping_mul(round | 0x9e37_79b9)).collect();
    numbers.sort_by(|a, b| b.cmp(a));
    let tree: BTreeMap<u64, f64> = numbers.iter().take(500).map(|n| (*n, *n as f64)).collect();
    tree.values().map(|value| value.sin()).sum::<f64>() as u64 ^ numbers[0]
}

fn copy(round: u64) -> u64 {
    let text = "all that can be copied ".repeat(4_000);
    let mut out = Vec::new();
    for _ in 0..20 {
        out.extend_from_slice(text.as_bytes());
        out.shrink_to_fit();
    }
    out[round as usize % out.len()] as u64
}

fn recurse(depth: u64) -> u64 {
    let room = [depth; 30];
    if depth == 0 {
        1
    } else {
        recurse(depth - 1) + std::hint::black_box(room)[depth as usize % 30]
    }
}

/// Where panics unwind, they do.
fn panics(round: u64) -> u64 {
    if cfg!(panic = "abort") {
        return round;
    }
    std::panic::catch_unwind(|| {
        if recurse(20) > 0 {
            std::panic::resume_unwind(Box::new(1u64))
        }
    })
    .map_or(1, |_| 0)
}

fn clock() -> u64 {
    (0..2_000).map(|_| std::time::Instant::now().elapsed().subsec_nanos() as u64).sum()
}

async fn inner(round: u64, shared: Arc<Mutex<u64>>) -> u64 {
    let mut sum = hash(round) ^ sort(round);
    tokio::task::yield_now().await;
    sum ^= copy(round) ^ recurse(200) ^ panics(round) ^ clock();
    *shared.lock().unwrap() ^= sum;
    if round % 16 == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await
    }
    sum
}

async fn outer(round: u64, shared: Arc<Mutex<u64>>) -> u64 {
    let (sender, mut receiver) = mpsc::channel(2);
    let task = tokio::spawn(async move { sender.send(inner(round, shared).await).await });
    let blocking = tokio::task::spawn_blocking(move || sort(round) ^ hash(round));
    let sum = receiver.recv().await.unwrap() ^ blocking.await.unwrap();
    task.await.unwrap().unwrap();
    sum
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let shared = Arc::new(Mutex::new(0));
    let sum = runtime.block_on(async {
        let mut sum = 0;
        for round in 0..rounds {
            let tasks: Vec<_> =
                (0..4).map(|i| tokio::spawn(outer(round * 4 + i, shared.clone()))).collect();
            for task in tasks {
                sum ^= task.await.unwrap()
            }
        }
        sum
    });
    drop(runtime);
    println!("{}", sum ^ *shared.lock().unwrap());
}
