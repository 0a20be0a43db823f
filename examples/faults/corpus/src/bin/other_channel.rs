// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All places send into one bounded channel that is not Tokio's; what receives from it is slow.
use corpus::{burn, now_ns, Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;

static QUEUE: OnceLock<flume::Sender<u64>> = OnceLock::new();

mod places {
    use super::{now_ns, Job, Victims, QUEUE};
    corpus::drawn! {
        async fn [checkout search render billing](mut job: Job) {
            while job.next().await {
                job.work();
                let from_ns = now_ns();
                let _ = QUEUE.get().expect("made").send_async(from_ns).await;
                job.run.waited(Victims::Others, now_ns() - from_ns, 0);
                job.reply().await;
            }
        }
    }
}

type Consumer = (flume::Receiver<u64>, Duration);

corpus::drawn! {
    async fn [store_orders write_ledger publish](consumer: Consumer) {
        let (queue, pause) = consumer;
        while queue.recv_async().await.is_ok() {
            burn(Duration::from_micros(10));
            tokio::time::sleep(pause).await;
        }
    }
}

fn main() {
    let run = Run::read("other_channel");
    let size = run.size_us(1_000, 100_000);
    let (sender, queue) = flume::bounded(run.within(2, 16) as usize);
    QUEUE.get_or_init(|| sender);
    let runtime = run.runtime();
    runtime.block_on(async {
        spawn(run.hit, (queue, size));
        for one in run.traffic(places::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["channel_full"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Others });
}
