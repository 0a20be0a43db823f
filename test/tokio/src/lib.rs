// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Witnesses: what a program can count about itself with Tokio's own means and with ordinary Rust.
pub mod heap;
pub mod measured;
pub mod waits;

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

/// Futures made by [`counted`] that were polled at least once, and those of them dropped again.
pub static STARTED: AtomicU64 = AtomicU64::new(0);
pub static DROPPED: AtomicU64 = AtomicU64::new(0);
/// Polls of counted futures.
pub static POLLS: AtomicU64 = AtomicU64::new(0);
/// Closures run on the blocking pool.
pub static BLOCKING: AtomicU64 = AtomicU64::new(0);
/// Wakes issued through a waker of a counted task by this program itself.
pub static WAKES: AtomicU64 = AtomicU64::new(0);

/// Those of them on a `LocalSet`, which no worker counts.
pub static LOCAL_POLLS: AtomicU64 = AtomicU64::new(0);

pub struct Counted<F> {
    future: F,
    is_local: bool,
    is_started: bool,
}

/// Wraps the outermost future of a task, so that its polls are the polls of the task.
pub fn counted<F: Future>(future: F) -> Counted<F> {
    Counted { future, is_local: false, is_started: false }
}

/// The same for a task of a `LocalSet`.
pub fn counted_local<F: Future>(future: F) -> Counted<F> {
    let mut counted = counted(future);
    counted.is_local = true;
    counted
}

/// A multi-thread runtime of so many workers. Tokio counts no poll of a task that came from a
/// worker's LIFO slot, so it is switched off where that is possible.
pub fn multi_thread(workers: u64) -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(workers as usize);
    #[cfg(tokio_unstable)]
    builder.disable_lifo_slot();
    builder
}

impl<F: Future> Future for Counted<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is structurally pinned: never moved out of, dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        POLLS.fetch_add(1, Relaxed);
        LOCAL_POLLS.fetch_add(this.is_local as u64, Relaxed);
        if !this.is_started {
            this.is_started = true;
            STARTED.fetch_add(1, Relaxed);
        }
        // SAFETY: as above.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(cx)
    }
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        if self.is_started {
            DROPPED.fetch_add(1, Relaxed);
        }
    }
}

/// Wakes its own task `times` times through the waker and returns to the scheduler each time.
pub async fn self_wake(times: u64) {
    for _ in 0..times {
        let mut is_woken = false;
        std::future::poll_fn(|cx| {
            if is_woken {
                return Poll::Ready(());
            }
            is_woken = true;
            WAKES.fetch_add(1, Relaxed);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

pub fn blocking<R>(run: impl FnOnce() -> R) -> R {
    BLOCKING.fetch_add(1, Relaxed);
    run()
}

/// One JSON line, the witness' statement, on standard output.
pub fn say(name: &str, pairs: &[(&str, u64)]) {
    let mut line = format!("{{\"witness\":\"{name}\"");
    let own = [
        ("tasks", STARTED.load(Relaxed)),
        ("dropped", DROPPED.load(Relaxed)),
        ("polls", POLLS.load(Relaxed)),
        ("local_polls", LOCAL_POLLS.load(Relaxed)),
        ("blocking", BLOCKING.load(Relaxed)),
        ("self_wakes", WAKES.load(Relaxed)),
    ];
    for (key, value) in own.iter().chain(pairs) {
        line.push_str(&format!(",\"{key}\":{value}"));
    }
    println!("{line}}}");
}

/// Sums that Tokio itself keeps; empty without `tokio_unstable`. Call it when the runtime is gone:
/// the counters are flushed when a worker parks.
#[cfg(tokio_unstable)]
pub fn runtime_counts(metrics: &tokio::runtime::RuntimeMetrics) -> Vec<(&'static str, u64)> {
    let workers = metrics.num_workers();
    vec![
        ("workers", workers as u64),
        ("worker_polls", (0..workers).map(|i| metrics.worker_poll_count(i)).sum()),
        ("worker_parks", (0..workers).map(|i| metrics.worker_park_count(i)).sum()),
        ("worker_noops", (0..workers).map(|i| metrics.worker_noop_count(i)).sum()),
    ]
}

#[cfg(not(tokio_unstable))]
pub fn runtime_counts(_: &tokio::runtime::RuntimeMetrics) -> Vec<(&'static str, u64)> {
    Vec::new()
}
