// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One place forgets its permits now and then, until none is left.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::sync::OnceLock;
use tokio::sync::Semaphore;

static EVERY: OnceLock<u64> = OnceLock::new();
static CONNECTIONS: OnceLock<Semaphore> = OnceLock::new();

corpus::drawn! {
    async fn [checkout search render billing](mut job: Job) {
        let mut count = 0;
        while job.next().await {
            let from_ns = now_ns();
            let got = CONNECTIONS.get().expect("made").acquire();
            let permit = tokio::time::timeout(job.run.left(), got).await;
            job.run.waited(Victims::Stuck, now_ns() - from_ns, 0);
            job.work();
            count += 1;
            let is_lost = job.hit && count % EVERY.get().expect("drawn") == 0;
            if let (true, Ok(Ok(permit))) = (is_lost, permit) {
                permit.forget();
            }
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("lost_permits");
    let every = *EVERY.get_or_init(|| run.size(2, 200));
    CONNECTIONS.get_or_init(|| Semaphore::new(run.within(2, 4) as usize));
    run.serve(spawn);
    let findings = &["semaphore_exhausted"];
    run.end(every, Expected { findings, culprit: vec![], victims: Victims::Stuck });
}
