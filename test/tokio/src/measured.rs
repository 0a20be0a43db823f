// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the crate tokio-metrics counts of a task, counted by its rules: a witness of
//! `kymo view task_metrics` that needs no crate.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

/// Of all tasks of one kind.
#[derive(Default)]
pub struct Counts {
    pub instrumented: AtomicU64,
    pub dropped: AtomicU64,
    pub first_polls: AtomicU64,
    pub polls: AtomicU64,
    pub idled: AtomicU64,
    pub scheduled: AtomicU64,
}

impl Counts {
    pub fn all(&self) -> Vec<(&'static str, u64)> {
        [
            ("instrumented_count", &self.instrumented),
            ("dropped_count", &self.dropped),
            ("first_poll_count", &self.first_polls),
            ("total_poll_count", &self.polls),
            ("total_idled_count", &self.idled),
            ("total_scheduled_count", &self.scheduled),
        ]
        .into_iter()
        .map(|(name, count)| (name, count.load(SeqCst)))
        .collect()
    }
}

/// A task's waker, with a note of its first use. Times are of the task, from 1.
struct Noted {
    begin: Instant,
    woken_at: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Noted {
    fn now(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64 + 1
    }
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let _ = self.woken_at.compare_exchange(0, self.now(), SeqCst, SeqCst);
        let waker = self.waker.lock().unwrap().clone();
        waker.expect("a task is polled before it is woken").wake();
    }
}

pub struct Measured<F> {
    future: F,
    counts: &'static Counts,
    noted: Arc<Noted>,
    idle_since: Option<u64>,
}

pub fn measured<F: Future>(counts: &'static Counts, future: F) -> Measured<F> {
    counts.instrumented.fetch_add(1, SeqCst);
    let noted =
        Noted { begin: Instant::now(), woken_at: AtomicU64::new(0), waker: Mutex::new(None) };
    Measured { future, counts, noted: Arc::new(noted), idle_since: None }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is structurally pinned: never moved out of, dropped in place.
        let this = unsafe { self.get_unchecked_mut() };
        let woken_at = this.noted.woken_at.swap(0, SeqCst);
        this.counts.polls.fetch_add(1, SeqCst);
        match this.idle_since {
            None => _ = this.counts.first_polls.fetch_add(1, SeqCst),
            Some(since) => _ = this.counts.idled.fetch_add((since < woken_at) as u64, SeqCst),
        }
        this.counts.scheduled.fetch_add((woken_at > 0) as u64, SeqCst);
        *this.noted.waker.lock().unwrap() = Some(cx.waker().clone());
        let waker = Waker::from(this.noted.clone());
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let result = future.poll(&mut Context::from_waker(&waker));
        this.idle_since = Some(this.noted.now());
        result
    }
}

impl<F> Drop for Measured<F> {
    fn drop(&mut self) {
        self.counts.dropped.fetch_add(1, SeqCst);
    }
}
