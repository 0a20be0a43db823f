// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two tasks take two locks in opposite order, and at some moment each has one of them.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Barrier, Mutex};

struct Locks {
    run: Arc<Run>,
    one: Mutex<u64>,
    other: Mutex<u64>,
    both: Barrier,
    at_ns: u64,
}

async fn take(locks: &Locks, first: &Mutex<u64>, second: &Mutex<u64>) {
    let stays = now_ns() > locks.at_ns;
    let mut first = first.lock().await;
    if stays {
        locks.both.wait().await; // the other has its own first lock, too
        let left = locks.run.left();
        let from_ns = now_ns();
        let _ = tokio::time::timeout(left, second.lock()).await;
        locks.run.waited(Victims::Own, now_ns() - from_ns, 0);
        return std::future::pending().await;
    }
    *first += *second.lock().await;
}

type Step = (Arc<Locks>, bool);

corpus::drawn! {
    async fn [transfer settle rebalance](step: Step) {
        let (locks, is_first) = step;
        while !locks.run.is_over() {
            if is_first {
                take(&locks, &locks.one, &locks.other).await;
            } else if now_ns() > locks.at_ns {
                take(&locks, &locks.other, &locks.one).await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
}

fn main() {
    let run = Run::read("deadlock");
    let stuck_ns = run.size(20_000_000, run.left().as_nanos() as u64 * 2 / 3);
    let (one, other, both) = (Mutex::new(1), Mutex::new(2), Barrier::new(2));
    let at_ns = run.until_ns - stuck_ns;
    let locks = Arc::new(Locks { run: run.clone(), one, other, both, at_ns });
    let runtime = run.runtime();
    runtime.block_on(async {
        spawn(run.hit, (locks.clone(), true));
        spawn(run.hit, (locks, false));
        for client in run.traffic(plain::spawn).await {
            let _ = client.await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await; // what waits says so
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["mutual_wait"];
    run.end(stuck_ns / 1000, Expected { findings, culprit, victims: Victims::Stuck });
}
