// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pool of connections made of a Notify; one place keeps its connection for long.
use corpus::{now_ns, Expected, Job, Run, Victims};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

static SIZE: OnceLock<Duration> = OnceLock::new();
static IDLE: Mutex<u64> = Mutex::new(0);
static FREED: Notify = Notify::const_new();

struct Connection;

impl Drop for Connection {
    fn drop(&mut self) {
        *IDLE.lock().expect("no thread panicked") += 1;
        FREED.notify_one();
    }
}

async fn checkout() -> Connection {
    loop {
        let freed = FREED.notified();
        {
            let mut idle = IDLE.lock().expect("no thread panicked");
            if *idle > 0 {
                *idle -= 1;
                return Connection;
            }
        }
        freed.await;
    }
}

corpus::drawn! {
    async fn [checkout_page search render billing](mut job: Job) {
        while job.next().await {
            let from_ns = now_ns();
            let connection = checkout().await;
            job.run.waited(Victims::Own, now_ns() - from_ns, 0);
            job.work();
            tokio::time::sleep(*SIZE.get().expect("drawn")).await;
            drop(connection);
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("hand_pool");
    let size = *SIZE.get_or_init(|| run.size_us(1_000, 100_000));
    *IDLE.lock().expect("no thread panicked") = run.within(1, 2);
    run.serve(spawn);
    let findings = &["semaphore_exhausted"];
    run.end(size.as_micros() as u64, Expected { findings, culprit: vec![], victims: Victims::Own });
}
