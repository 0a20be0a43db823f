// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer that is due while the only worker is in a long poll of another task: it fires when the
//! worker checks the driver again. The task measures how late.
use faults::{end, now_ns, say, Options};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

const ROUNDS: u64 = 20;
const SLEEP: Duration = Duration::from_millis(20);
const HOG: Duration = Duration::from_millis(30);
/// Long enough that the worker parks in between.
const PACE: Duration = Duration::from_millis(55);

async fn late() {
    for _ in 0..ROUNDS {
        let due = Instant::now() + SLEEP;
        let due_ns = now_ns() + SLEEP.as_nanos() as u64;
        tokio::time::sleep_until(due).await;
        say("late", now_ns().saturating_sub(due_ns));
    }
}

async fn hog(word: Arc<Notify>) {
    loop {
        word.notified().await;
        std::thread::sleep(HOG);
    }
}

fn main() {
    Options::read();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let word = Arc::new(Notify::new());
    runtime.spawn(hog(word.clone()));
    let task = runtime.spawn(late());
    while !task.is_finished() {
        std::thread::sleep(PACE);
        word.notify_one();
    }
    end();
}
