// SPDX-License-Identifier: Apache-2.0 OR MIT
// The body of the yield loop: `tasks` tasks that yield `yields` times each. The number of polls
// follows from the two (each task: yields + 1), so ns a poll needs no counter inside the loop.

const TASKS: u64 = 50;

async fn yields(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

async fn yield_loop(polls: u64) -> f64 {
    let each = polls / TASKS;
    let start = std::time::Instant::now();
    let mut set = Vec::new();
    for _ in 0..TASKS {
        set.push(spawn(yields(each)));
    }
    for task in set {
        task.await.unwrap();
    }
    start.elapsed().as_nanos() as f64 / (TASKS * (each + 1)) as f64
}

fn polls_from_args() -> u64 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000_000)
}
