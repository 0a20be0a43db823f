// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: all places share a semaphore and a lock, which each keeps for a moment.
use corpus::{Expected, Job, Run, Victims};
use std::sync::OnceLock;
use tokio::sync::{Mutex, Semaphore};

static CONNECTIONS: OnceLock<Semaphore> = OnceLock::new();
static STOCK: Mutex<u64> = Mutex::const_new(0);

corpus::drawn! {
    async fn [checkout search render billing](mut job: Job) {
        while job.next().await {
            let permit = CONNECTIONS.get().expect("made").acquire().await;
            *STOCK.lock().await += 1;
            job.work();
            drop(permit);
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("healthy_permits");
    let permits = run.size(1, 16);
    CONNECTIONS.get_or_init(|| Semaphore::new(permits as usize));
    run.serve(spawn);
    run.end(permits, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
