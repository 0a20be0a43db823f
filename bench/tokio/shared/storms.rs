// SPDX-License-Identifier: Apache-2.0 OR MIT
// Loops on one worker: `spawn` makes tasks that end with their first poll, one of 100 is awaited;
// `join` awaits each of them, so that its end wakes the task that made it, which is polled once
// more and waits for the next; `ping` sends a message to another task and back, two polls and two
// wakes each. As in the yield loop, the second of two passes counts.

use std::time::Duration;
use tokio::sync::mpsc;

const BATCH: u64 = 100;
const PAUSE: Duration = Duration::from_millis(500);

fn thread_cpu_ns() -> f64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

async fn spawn_pass(count: u64) {
    for _ in 0..count / BATCH {
        let mut last = None;
        for _ in 1..BATCH {
            last = Some(spawn(async {}));
        }
        // The newest task runs first, this one last: the whole batch is over once it is.
        drop(spawn(async {}));
        last.unwrap().await.unwrap();
    }
}

async fn join_pass(count: u64) {
    for _ in 0..count / BATCH {
        let mut set = Vec::new();
        for _ in 0..BATCH {
            set.push(spawn(async {}));
        }
        for task in set {
            task.await.unwrap();
        }
    }
}

async fn ping_pass(count: u64) {
    let (to, mut from_us) = mpsc::channel::<u64>(1);
    let (back, mut from_them) = mpsc::channel::<u64>(1);
    let task = spawn(async move {
        while let Some(number) = from_us.recv().await {
            back.send(number).await.unwrap();
        }
    });
    for number in 0..count {
        to.send(number).await.unwrap();
        assert_eq!(from_them.recv().await, Some(number));
    }
    drop(to);
    task.await.unwrap();
}

/// CPU ns of the only worker, a task or a message and back.
async fn storm(kind: String, count: u64) -> f64 {
    let mut cpu_ns = 0.0;
    for _ in 0..2 {
        tokio::time::sleep(PAUSE).await;
        let start = thread_cpu_ns();
        match kind.as_str() {
            "spawn" => spawn_pass(count).await,
            "join" => join_pass(count).await,
            _ => ping_pass(count).await,
        }
        cpu_ns = thread_cpu_ns() - start;
    }
    cpu_ns / count as f64
}

fn storm_from_args() -> (String, u64) {
    let mut args = std::env::args().skip(1);
    (args.next().unwrap(), args.next().and_then(|text| text.parse().ok()).unwrap())
}
