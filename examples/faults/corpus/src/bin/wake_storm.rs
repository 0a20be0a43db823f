// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A queue written by hand wakes its reader for each of many items, though one wake would do.
use corpus::{Expected, Run, Victims};
use std::sync::{Mutex, OnceLock};
use std::task::{Poll, Waker};

static COUNT: OnceLock<u64> = OnceLock::new();
static QUEUE: Mutex<(u64, Option<Waker>)> = Mutex::new((0, None));

fn push(count: u64) {
    let reader = {
        let mut queue = QUEUE.lock().expect("no thread panicked");
        queue.0 += count;
        queue.1.clone()
    };
    if let Some(reader) = reader {
        for _ in 0..count {
            reader.wake_by_ref();
        }
    }
}

async fn take_all() -> u64 {
    std::future::poll_fn(|context| {
        let mut queue = QUEUE.lock().expect("no thread panicked");
        queue.1 = Some(context.waker().clone());
        match std::mem::take(&mut queue.0) {
            0 => Poll::Pending,
            count => Poll::Ready(count),
        }
    })
    .await
}

corpus::places!(|job| {
    push(*COUNT.get().expect("drawn"));
});

fn main() {
    let run = Run::read("wake_storm");
    let count = *COUNT.get_or_init(|| run.size(5_000, 500_000));
    let runtime = run.runtime();
    runtime.block_on(async {
        tokio::spawn(async {
            loop {
                std::hint::black_box(take_all().await);
            }
        });
        for one in run.traffic(spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(std::time::Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit].into(), "push".into()];
    run.end(count, Expected { findings: &["redundant_wakes"], culprit, victims: Victims::All });
}
