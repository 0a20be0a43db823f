// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two Tokios in one program, busy at the same time. Says how often each polled its tasks.
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

static NEW: AtomicU64 = AtomicU64::new(0);
static OLD: AtomicU64 = AtomicU64::new(0);

/// Wakes itself until it was polled 101 times, and counts.
struct Steps(u64, &'static AtomicU64);

impl Future for Steps {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.1.fetch_add(1, Relaxed);
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn new_task(steps: u64) {
    Steps(steps, &NEW).await
}

async fn old_task(steps: u64) {
    Steps(steps, &OLD).await
}

/// Workers that have had nothing to do.
static NEW_WORKERS: AtomicU64 = AtomicU64::new(0);
static OLD_WORKERS: AtomicU64 = AtomicU64::new(0);

thread_local!(static HAS_PARKED: Cell<bool> = const { Cell::new(false) });

fn note_park(workers: &AtomicU64) {
    if !HAS_PARKED.replace(true) {
        workers.fetch_add(1, Relaxed);
    }
}

/// A runtime that ends before its last worker has begun looks like two.
fn let_workers_begin(workers: &AtomicU64, count: u64) {
    while workers.load(Relaxed) < count {
        std::thread::sleep(std::time::Duration::from_millis(1))
    }
}

fn main() {
    let new = std::thread::spawn(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).on_thread_park(|| note_park(&NEW_WORKERS));
        let runtime = builder.build().unwrap();
        let_workers_begin(&NEW_WORKERS, 2);
        runtime.block_on(async {
            let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(new_task(100))).collect();
            for task in tasks {
                task.await.unwrap()
            }
        })
    });
    let mut builder = tokio_old::runtime::Builder::new_multi_thread();
    builder.worker_threads(3).on_thread_park(|| note_park(&OLD_WORKERS));
    let runtime = builder.build().unwrap();
    let_workers_begin(&OLD_WORKERS, 3);
    runtime.block_on(async {
        let tasks: Vec<_> = (0..30).map(|_| tokio_old::spawn(old_task(100))).collect();
        for task in tasks {
            task.await.unwrap()
        }
    });
    new.join().unwrap();
    println!("{{\"new\":{},\"old\":{}}}", NEW.load(Relaxed), OLD.load(Relaxed));
}
