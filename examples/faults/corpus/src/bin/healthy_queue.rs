// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: unbounded channels whose tasks keep up: one takes item by item, one all that is there
//! after each pause, and one has had a command at the start and ticks since.
use corpus::{Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

type Item = Box<[u8; 512]>;

static QUEUES: OnceLock<[UnboundedSender<Item>; 2]> = OnceLock::new();

mod places {
    use super::{Job, QUEUES};
    corpus::drawn! {
        async fn [checkout search render billing](mut job: Job) {
            while job.next().await {
                job.work();
                for queue in QUEUES.get().expect("made") {
                    let _ = queue.send(Box::new([1; 512]));
                }
                job.reply().await;
            }
        }
    }
}

async fn write_ledger(mut queue: UnboundedReceiver<Item>) {
    while let Some(item) = queue.recv().await {
        std::hint::black_box(&item);
    }
}

async fn store_batches(mut queue: UnboundedReceiver<Item>, pause: Duration) {
    while let Some(first) = queue.recv().await {
        std::hint::black_box(&first);
        while let Ok(item) = queue.try_recv() {
            std::hint::black_box(&item);
        }
        tokio::time::sleep(pause).await;
    }
}

async fn keep_time(mut commands: UnboundedReceiver<Item>, every: Duration) {
    let mut tick = tokio::time::interval(every);
    loop {
        tokio::select! {
            _ = commands.recv() => {}
            _ = tick.tick() => {}
        }
    }
}

fn main() {
    let run = Run::read("healthy_queue");
    let size = run.size_us(1_000, 100_000);
    let every = run.size_us(1_000, 50_000);
    let (one, items) = unbounded_channel();
    let (other, batches) = unbounded_channel();
    let (command, commands) = unbounded_channel();
    QUEUES.get_or_init(|| [one, other]);
    let runtime = run.runtime();
    runtime.block_on(async {
        tokio::spawn(write_ledger(items));
        tokio::spawn(store_batches(batches, size));
        tokio::spawn(keep_time(commands, every));
        tokio::time::sleep(Duration::from_millis(5)).await;
        let _ = command.send(Box::new([1; 512]));
        for one in run.traffic(places::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let expected = Expected { findings: &[], culprit: vec![], victims: Victims::None };
    run.end(size.as_micros() as u64, expected);
}
