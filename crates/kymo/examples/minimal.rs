// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one line: every task of this program is recorded.
//!
//!     KYMO_MODE=stream KYMO_TRACE_DIR=traces cargo run --example minimal && kymo report traces
use std::sync::atomic::{AtomicU64, Ordering};

/// The program's own count of polls, for the test that compares it with the trace.
static POLLS: AtomicU64 = AtomicU64::new(0);

async fn work(turns: u32) {
    for _ in 0..turns {
        POLLS.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    POLLS.fetch_add(1, Ordering::Relaxed);
}

#[tokio::main]
async fn main() {
    kymo::init();
    let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(work(200))).collect();

    for task in tasks {
        task.await.expect("a task panicked");
    }
    println!("{}", POLLS.load(Ordering::Relaxed));
    eprintln!("{}", kymo::Status::now().tokio);
}
