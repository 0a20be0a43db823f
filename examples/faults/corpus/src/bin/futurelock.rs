// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place waits for a lock in one branch of select!, and then for the same lock in the other,
//! while the first future stands in the queue and is not polled.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::Mutex;

const HELD: Duration = Duration::from_millis(20);
static STOCK: Mutex<u64> = Mutex::const_new(0);
static AT_NS: OnceLock<u64> = OnceLock::new();

async fn reserve() {
    *STOCK.lock().await += 1;
}

corpus::drawn! {
    async fn [checkout search render billing](mut job: Job) {
        while job.next().await {
            job.work();
            let from_ns = now_ns();
            if job.hit && from_ns > *AT_NS.get().expect("drawn") {
                let mut first = pin!(reserve());
                tokio::select! {
                    () = &mut first => {}
                    () = tokio::time::sleep(Duration::from_millis(2)) => reserve().await,
                }
            } else {
                reserve().await;
            }
            job.run.waited(Victims::Others, now_ns() - from_ns, 0);
            job.reply().await;
        }
    }
}

/// Holds the lock for longer than the place above waits, from when it may be stuck on.
async fn recount(run: std::sync::Arc<Run>) {
    let left_ns = AT_NS.get().expect("drawn").saturating_sub(now_ns());
    tokio::time::sleep(Duration::from_nanos(left_ns)).await;
    while !run.is_over() {
        let stock = STOCK.lock().await;
        tokio::time::sleep(HELD).await;
        drop(stock);
        tokio::time::sleep(HELD).await;
    }
}

fn main() {
    let run = Run::read("futurelock");
    let stuck_ns = run.size(20_000_000, run.left().as_nanos() as u64 * 2 / 3);
    AT_NS.get_or_init(|| run.until_ns - stuck_ns);
    let runtime = run.runtime();
    runtime.block_on(async {
        tokio::spawn(recount(run.clone()));
        for one in run.traffic(spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let mut culprit = vec![NAMES[run.hit].into()];
    let mut findings: &[_] = &["futurelock"];
    if stuck_ns < 2 * HELD.as_nanos() as u64 {
        // Then the lock was held once, and that is what all waited for.
        culprit.push("recount".into());
        findings = &["futurelock", "async_lock_held"];
    }
    run.end(stuck_ns / 1000, Expected { findings, culprit, victims: Victims::Stuck });
}
