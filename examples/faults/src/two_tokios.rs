// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two copies of Tokio in one program, of different releases: test/faults builds it, as cargo has
//! no room for both in one manifest. Tasks of each count their own polls; a closure of each counts
//! itself. It states both counts.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

const TASKS: u64 = 8;
const ROUNDS: u64 = 25;
const RUNS: u64 = 5;

static POLLS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Pending so many times, each time woken by its own waker.
struct Rounds<const COPY: usize>(u64);

impl<const COPY: usize> Future for Rounds<COPY> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        POLLS[COPY].fetch_add(1, Ordering::Relaxed);
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().clone().wake();
        Poll::Pending
    }
}

macro_rules! run {
    ($tokio:ident, $copy:literal) => {{
        let runtime = $tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..TASKS).map(|_| $tokio::spawn(Rounds::<$copy>(ROUNDS))).collect();
            for task in tasks {
                task.await.expect("a task");
            }
            for _ in 0..RUNS {
                $tokio::task::spawn_blocking(|| ()).await.expect("a closure");
            }
        });
    }};
}

fn main() {
    run!(newest, 0);
    run!(oldest, 1);
    println!(
        "{{\"polls\": [{}, {}], \"tasks\": {TASKS}, \"runs\": {RUNS}}}",
        POLLS[0].load(Ordering::Relaxed),
        POLLS[1].load(Ordering::Relaxed)
    );
}
