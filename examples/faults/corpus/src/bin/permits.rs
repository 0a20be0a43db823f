// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All places share a semaphore of few permits; one place keeps its permit for long.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::sync::Semaphore;

static SIZE: OnceLock<Duration> = OnceLock::new();
static CONNECTIONS: OnceLock<Semaphore> = OnceLock::new();

corpus::drawn! {
    async fn [checkout search render billing](mut job: Job) {
        while job.next().await {
            let from_ns = now_ns();
            let permit = CONNECTIONS.get().expect("made").acquire().await;
            let victims = if job.hit { Victims::Own } else { Victims::Others };
            job.run.waited(victims, now_ns() - from_ns, 0);
            job.work();
            if job.hit {
                tokio::time::sleep(*SIZE.get().expect("drawn")).await;
            }
            drop(permit);
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("permits");
    let size = *SIZE.get_or_init(|| run.size_us(1_000, 100_000));
    CONNECTIONS.get_or_init(|| Semaphore::new(run.within(1, 2) as usize));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["semaphore_exhausted"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Others });
}
