// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All places send into an unbounded channel; the task that receives from it cannot keep up.
use corpus::{Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc;

static QUEUE: OnceLock<mpsc::UnboundedSender<Box<[u8; 512]>>> = OnceLock::new();

mod places {
    use super::{Job, QUEUE};
    corpus::drawn! {
        async fn [checkout search render billing](mut job: Job) {
            while job.next().await {
                job.work();
                let _ = QUEUE.get().expect("made").send(Box::new([1; 512]));
                job.run.grew(1);
                job.reply().await;
            }
        }
    }
}

type Consumer = (mpsc::UnboundedReceiver<Box<[u8; 512]>>, Duration, std::sync::Arc<Run>);

corpus::drawn! {
    async fn [store_orders write_ledger publish](consumer: Consumer) {
        let (mut queue, pause, run) = consumer;
        while queue.recv().await.is_some() {
            run.grew(-1);
            tokio::time::sleep(pause).await;
        }
    }
}

fn main() {
    let run = Run::read("queue_growth");
    let size = run.size_us(1_000, 100_000);
    let (sender, queue) = mpsc::unbounded_channel();
    QUEUE.get_or_init(|| sender);
    let runtime = run.runtime();
    runtime.block_on(async {
        spawn(run.hit, (queue, size, run.clone()));
        for one in run.traffic(places::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["queue_growth"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Growth });
}
