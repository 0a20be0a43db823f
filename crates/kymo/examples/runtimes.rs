// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several runtimes in one process: two of several threads, one thread per core beside them, and a
//! local set. The recorder starts after the first one and ends before it.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --example runtimes && kymo info traces
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Polls that the program itself counted while it was recorded.
static POLLS: AtomicU64 = AtomicU64::new(0);

async fn work(turns: u32) {
    for _ in 0..turns {
        POLLS.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    POLLS.fetch_add(1, Ordering::Relaxed);
}

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn run(runtime: &Runtime, tasks: usize) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks).map(|_| tokio::spawn(work(50))).collect();

        for task in tasks {
            task.await.expect("a task panicked");
        }
    });
}

/// One thread with a runtime and a local set of its own.
fn core() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");

    run(&runtime, 5);
    LocalSet::new().block_on(&runtime, async {
        tokio::task::spawn_local(work(50)).await.expect("a task panicked");
    });
}

fn main() {
    let first = multi_thread();

    run(&first, 1);
    POLLS.store(0, Ordering::Relaxed);

    let recorder =
        kymo::Recorder::start(kymo::Config::from_env().build_or_disabled()).expect("a recorder");
    let second = multi_thread();

    run(&first, 10);
    run(&second, 10);
    drop(second);
    let cores: Vec<_> = (0..3).map(|_| std::thread::spawn(core)).collect();

    for core in cores {
        core.join().expect("a thread panicked");
    }
    println!("{}", POLLS.load(Ordering::Relaxed));
    recorder.shutdown(Duration::from_secs(5)).expect("the trace is sealed");
    run(&first, 10);
}
