// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A task awaits a lock in the loop over a set of futures, one of which has got that lock.
use corpus::{now_ns, plain, Expected, Run, Victims};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

type Batch = (Arc<Run>, Arc<Mutex<u64>>, Duration);

async fn render(total: Arc<Mutex<u64>>) {
    let mut guard = total.lock().await;
    tokio::time::sleep(Duration::from_millis(3)).await;
    *guard += 1;
}

corpus::drawn! {
    async fn [nightly reindex invoices](batch: Batch) {
        let (run, total, pause) = batch;
        tokio::time::sleep(pause).await;
        let mut jobs: FuturesUnordered<_> = (0..3).map(|_| render(total.clone())).collect();
        while jobs.next().await.is_some() {
            let _ = tokio::time::timeout(run.left(), total.lock()).await;
        }
    }
}

async fn user(run: Arc<Run>, total: Arc<Mutex<u64>>) {
    while !run.is_over() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let from_ns = now_ns();
        let _ = tokio::time::timeout(run.left(), total.lock()).await;
        run.waited(Victims::Stuck, now_ns() - from_ns, 0);
    }
}

fn main() {
    let run = Run::read("kept_future");
    let pause = run.size_us(50_000, 500_000);
    let runtime = run.runtime();
    runtime.block_on(async {
        let total = Arc::new(Mutex::new(0));
        for _ in 0..3 {
            tokio::spawn(user(run.clone(), total.clone()));
        }
        spawn(run.hit, (run.clone(), total, pause));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec!["render".into(), NAMES[run.hit % NAMES.len()].into()];
    let findings = &["futurelock"];
    run.end(pause.as_micros() as u64, Expected { findings, culprit, victims: Victims::Stuck });
}
