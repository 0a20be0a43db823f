// SPDX-License-Identifier: Apache-2.0 OR MIT
// The body of the yield loop: 50 tasks that yield `polls` / 50 times each. The number of polls
// follows from the two (each task: yields + 1), so ns a poll needs no counter inside the loop.

use std::time::{Duration, Instant};

const TASKS: u64 = 50;
const PAUSE: Duration = Duration::from_millis(500);

async fn yields(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

fn thread_cpu_ns() -> f64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// ns a poll in CPU time of the only worker, which other load cannot raise, and on the wall clock.
async fn pass(polls: u64) -> (f64, f64) {
    let each = polls / TASKS;
    let (start, cpu_ns) = (Instant::now(), thread_cpu_ns());
    let mut set = Vec::new();
    for _ in 0..TASKS {
        set.push(spawn(yields(each)));
    }
    for task in set {
        task.await.unwrap();
    }
    let count = (TASKS * (each + 1)) as f64;
    ((thread_cpu_ns() - cpu_ns) / count, start.elapsed().as_nanos() as f64 / count)
}

/// Two passes: the first touches the memory of whatever records for the first time; the second,
/// after a pause in which that can catch up, is the one that counts. CPU ns a poll of the second,
/// its ns on the wall clock, CPU ns a poll of the first.
async fn yield_loop(polls: u64) -> (f64, f64, f64) {
    let (first_ns, _) = pass(polls).await;
    tokio::time::sleep(PAUSE).await;
    let (cpu_ns, wall_ns) = pass(polls).await;
    (cpu_ns, wall_ns, first_ns)
}

fn polls_from_args() -> u64 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(500_000)
}
