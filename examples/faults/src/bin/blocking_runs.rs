// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: short closures on the blocking pool, and polls inside polls, beside tasks that yield
//! so often that the trace is cut into many chunks while closures and inner polls are open.
use faults::{end, now_ns, say, Options};
use std::sync::atomic::{AtomicU64, Ordering};

static LONGEST_RUN_NS: AtomicU64 = AtomicU64::new(0);
static LONGEST_INNER_NS: AtomicU64 = AtomicU64::new(0);

fn timed<T>(longest: &AtomicU64, run: impl FnOnce() -> T) -> T {
    let begin_ns = now_ns();
    let result = run();
    longest.fetch_max(now_ns() - begin_ns, Ordering::Relaxed);
    result
}

async fn close_many(until_ns: u64) -> u64 {
    let mut runs = 0;
    while now_ns() < until_ns {
        let run = || timed(&LONGEST_RUN_NS, || std::hint::black_box((0..500u64).sum::<u64>()));
        tokio::task::spawn_blocking(run).await.expect("a closure");
        runs += 1;
    }
    runs
}

/// Each turn is a poll inside the poll of this task.
async fn nest(until_ns: u64) {
    let inner = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    while now_ns() < until_ns {
        tokio::task::block_in_place(|| {
            timed(&LONGEST_INNER_NS, || {
                inner.block_on(async {
                    inner.spawn(tokio::task::yield_now()).await.expect("an inner task")
                })
            })
        });
        tokio::task::yield_now().await;
    }
    tokio::task::spawn_blocking(move || drop(inner)).await.expect("the end of a runtime");
}

async fn yield_often(until_ns: u64) {
    while now_ns() < until_ns {
        tokio::task::yield_now().await;
    }
}

fn main() {
    let options = Options::read();
    let until_ns = now_ns() + options.duration().as_nanos() as u64;
    options.runtime().block_on(async {
        let many: Vec<_> = (0..4).map(|_| tokio::spawn(close_many(until_ns))).collect();
        let others = [tokio::spawn(nest(until_ns)), tokio::spawn(yield_often(until_ns))];
        let mut runs = 1; // the one of nest()
        for one in many {
            runs += one.await.expect("closures");
        }
        for one in others {
            one.await.expect("a task");
        }
        say("runs", runs);
    });
    say("longest_run_ns", LONGEST_RUN_NS.load(Ordering::Relaxed));
    say("longest_inner_ns", LONGEST_INNER_NS.load(Ordering::Relaxed));
    end();
}
