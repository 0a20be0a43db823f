// SPDX-License-Identifier: Apache-2.0 OR MIT
// The body of the busy service: 64 tasks that work for some 100 us a poll, a dozen calls deep,
// until both workers have done so many polls. The same work every time.

use std::hint::black_box;

#[inline(never)]
fn mix(depth: u32, seed: u64) -> u64 {
    if depth > 0 {
        let below = mix(depth - 1, black_box(seed.rotate_left(7) ^ depth as u64));
        return black_box(below ^ seed);
    }
    (0..black_box(180_000)).fold(seed, |sum, i| black_box(sum.rotate_left(5) ^ i))
}

async fn busy_task(polls: u64) -> u64 {
    let mut sum = 0;
    for i in 0..polls {
        sum ^= mix(10, i);
        tokio::task::yield_now().await;
    }
    sum
}

/// CPU nanoseconds of the process for that work, and its wall time.
async fn busy(polls: u64) -> (u64, u64) {
    let begin = (std::time::Instant::now(), cpu_ns());
    let tasks: Vec<_> = (0..64).map(|_| spawn(busy_task(polls / 64))).collect();
    let mut sum = 0;
    for task in tasks {
        sum ^= task.await.unwrap();
    }
    black_box(sum);
    (cpu_ns() - begin.1, begin.0.elapsed().as_nanos() as u64)
}

fn cpu_ns() -> u64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn polls_from_args() -> u64 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(64_000)
}
