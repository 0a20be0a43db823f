// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A runtime with timers and without I/O: its thread waits for them on a condition variable.
use faults::{end, say, Options};
use std::time::Duration;

const SLEEP_MS: u64 = 70;

async fn sleeper() {
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(SLEEP_MS)).await;
    }
}

fn main() {
    Options::read();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::spawn(sleeper()).await.expect("a task") });
    say("sleep_ms", SLEEP_MS);
    end();
}
