// SPDX-License-Identifier: Apache-2.0 OR MIT
//! 50 tasks that yield: `yield_loop [POLLS_PER_TASK] [WORKERS] [ROUNDS]`. Prints ns per poll too.
use witness::{counted, multi_thread, runtime_counts, say};

fn argument(index: usize, default: u64) -> u64 {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn yielding(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await
    }
}

fn main() {
    let (times, workers, rounds) = (argument(1, 10_000), argument(2, 1), argument(3, 1));
    let runtime = multi_thread(workers).build().unwrap();
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = std::time::Instant::now();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..50).map(|_| tokio::spawn(counted(yielding(times)))).collect();
            for task in tasks {
                task.await.unwrap()
            }
        });
        best = best.min(start.elapsed().as_nanos() as f64 / (50.0 * (times + 1) as f64));
    }
    let metrics = runtime.handle().metrics();
    drop(runtime);
    eprintln!("{best:.1} ns per poll");
    say("yield_loop", &runtime_counts(&metrics));
}
