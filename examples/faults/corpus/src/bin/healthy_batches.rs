// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: a task collects what the places send it, and answers all of it when its timer is over:
//! they wait for that, as they are meant to.
use corpus::{Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

static QUEUE: OnceLock<mpsc::Sender<oneshot::Sender<()>>> = OnceLock::new();

mod places {
    use super::{oneshot, Job, QUEUE};
    corpus::drawn! {
        async fn [checkout search render billing](mut job: Job) {
            while job.next().await {
                job.work();
                if job.hit {
                    let (sender, answer) = oneshot::channel();
                    let _ = QUEUE.get().expect("made").send(sender).await;
                    let _ = answer.await;
                }
                job.reply().await;
            }
        }
    }
}

async fn commit_groups(mut queue: mpsc::Receiver<oneshot::Sender<()>>, every: Duration) {
    while let Some(first) = queue.recv().await {
        let (mut group, end) = (vec![first], tokio::time::Instant::now() + every);
        while let Ok(Some(one)) = tokio::time::timeout_at(end, queue.recv()).await {
            group.push(one);
        }
        for one in group {
            let _ = one.send(());
        }
    }
}

fn main() {
    let run = Run::read("healthy_batches");
    let size = run.size_us(2_000, 200_000);
    let (sender, queue) = mpsc::channel(1_000);
    QUEUE.get_or_init(|| sender);
    let runtime = run.runtime();
    runtime.block_on(async {
        tokio::spawn(commit_groups(queue, size));
        for one in run.traffic(places::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let size = size.as_micros() as u64;
    run.end(size, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
