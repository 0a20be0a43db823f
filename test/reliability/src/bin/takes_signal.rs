// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `takes_signal MS`: two tasks that compute without an end while SIGPROF gets its default action,
//! then a handler, each for so many milliseconds of processor time. It prints how often that
//! handler was called.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const SIGPROF: i32 = 27;
const DEFAULT: usize = 0;

extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
    fn clock() -> i64; // microseconds
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);

extern "C" fn count(_number: i32) {
    CALLS.fetch_add(1, Relaxed);
}

#[inline(never)]
async fn compute() {
    let mut sum = 0u64;
    while !IS_OVER.load(Relaxed) {
        for i in 0..10_000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31) + i)
        }
        tokio::task::yield_now().await
    }
}

fn main() {
    let length: i64 = std::env::args().nth(1).expect("milliseconds").parse().unwrap();
    let wait = || {
        let end = unsafe { clock() } + length * 1000;
        while unsafe { clock() } < end {
            std::thread::sleep(Duration::from_millis(1))
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let tasks = [runtime.spawn(compute()), runtime.spawn(compute())];
    wait();
    for handler in [DEFAULT, count as extern "C" fn(i32) as usize] {
        unsafe { signal(SIGPROF, handler) };
        wait()
    }
    IS_OVER.store(true, Relaxed);
    for task in tasks {
        runtime.block_on(task).unwrap()
    }
    println!("{{\"calls\":{}}}", CALLS.load(Relaxed));
}
