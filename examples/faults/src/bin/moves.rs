// SPDX-License-Identifier: Apache-2.0 OR MIT
//! block_in_place, thousands of short ones and some long ones. It states how many there were, and,
//! with one worker, how often that worker was seen on another thread.
use faults::{end, now_ns, say, tid, Options};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

const LONG: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(1);

static CALLS: AtomicU64 = AtomicU64::new(0);
static CHANGES: AtomicU64 = AtomicU64::new(0);
static LAST_TID: AtomicU64 = AtomicU64::new(0);

/// Each poll of a task notes its thread first. Only the thread that has the worker begins one.
struct Seen<F>(Pin<Box<F>>);

impl<F: Future> Future for Seen<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = LAST_TID.swap(tid(), Ordering::SeqCst);
        if before != 0 && before != tid() {
            CHANGES.fetch_add(1, Ordering::Relaxed);
        }
        self.0.as_mut().poll(context)
    }
}

fn blocked<T>(run: impl FnOnce() -> T) -> T {
    CALLS.fetch_add(1, Ordering::Relaxed);
    tokio::task::block_in_place(run)
}

/// Back before another thread has come for the worker, most of the time.
async fn short(until_ns: u64) {
    while now_ns() < until_ns {
        for _ in 0..8 {
            blocked(|| std::hint::black_box((0..100u64).sum::<u64>()));
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn long(until_ns: u64) {
    while now_ns() < until_ns {
        blocked(|| std::thread::sleep(LONG));
        tokio::time::sleep(LONG).await;
    }
}

async fn yield_often(until_ns: u64) {
    while now_ns() < until_ns {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn main() {
    let options = Options::read();
    let until_ns = now_ns() + options.duration().as_nanos() as u64;
    options.runtime().block_on(async {
        let tasks = [
            tokio::spawn(Seen(Box::pin(short(until_ns)))),
            tokio::spawn(Seen(Box::pin(short(until_ns)))),
        ];
        let others = [
            tokio::spawn(Seen(Box::pin(long(until_ns)))),
            tokio::spawn(Seen(Box::pin(long(until_ns)))),
        ];
        let last = tokio::spawn(Seen(Box::pin(yield_often(until_ns))));
        for task in tasks.into_iter().chain(others) {
            task.await.expect("a task");
        }
        last.await.expect("a task");
    });
    say("calls", CALLS.load(Ordering::Relaxed));
    say("changes", CHANGES.load(Ordering::Relaxed));
    end();
}
