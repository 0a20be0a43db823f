// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One notify_waiters() wakes every one of many tasks, of which each does little.
use corpus::{burn, now_ns, plain, Expected, Run, Victims};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

static PUBLISHED_NS: AtomicU64 = AtomicU64::new(0);

type Waiter = (Arc<Run>, Arc<Notify>);

corpus::drawn! {
    async fn [subscriber listener session](waiter: Waiter) {
        let (run, news) = waiter;
        while !run.is_over() {
            news.notified().await;
            run.waited(Victims::Own, now_ns() - PUBLISHED_NS.load(Ordering::Relaxed), 0);
            burn(Duration::from_micros(10));
        }
    }
}

async fn publish(run: Arc<Run>, news: Arc<Notify>, every: Duration) {
    while !run.is_over() {
        tokio::time::sleep(every).await;
        PUBLISHED_NS.store(now_ns(), Ordering::Relaxed);
        news.notify_waiters();
    }
}

fn main() {
    let run = Run::read("herd");
    let count = run.size(30, 3_000);
    let every = Duration::from_millis(run.within(40, 100));
    let runtime = run.runtime();
    runtime.block_on(async {
        let news = Arc::new(Notify::new());
        for _ in 0..count {
            spawn(run.hit, (run.clone(), news.clone()));
        }
        tokio::spawn(publish(run.clone(), news, every));
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec!["publish".into(), NAMES[run.hit % NAMES.len()].into()];
    let findings = &["thundering_herd"];
    run.end(count, Expected { findings, culprit, victims: Victims::All });
}
