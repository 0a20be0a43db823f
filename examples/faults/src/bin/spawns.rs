// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who spawns: two tasks, a closure of the blocking pool and the future of block_on, each a kind of
//! child of its own, at the same time on all workers; then a task that submits more closures than
//! the pool has threads, and measures how long each stood in line.
use faults::{burn, end, now_ns, say, Options};
use std::time::Duration;

const ROUNDS: u64 = 200;
const PACE: Duration = Duration::from_millis(2);
const THREADS: usize = 2;
const CROWD: u64 = 8;

/// As large as it says, so that no two have the same code, which a linker would make one.
async fn work<const BYTES: usize>() {
    let kept = std::hint::black_box([1u8; BYTES]);
    tokio::task::yield_now().await;
    std::hint::black_box(kept);
}

async fn front_child() {
    work::<24>().await
}

async fn back_child() {
    work::<48>().await
}

async fn closure_child() {
    work::<72>().await
}

async fn root_child() {
    work::<96>().await
}

fn back_closure(kept: [u8; 24]) {
    std::hint::black_box(kept);
    burn(Duration::from_micros(50));
}

/// Does not wait for what it spawns.
async fn front() {
    for _ in 0..ROUNDS {
        tokio::time::sleep(PACE).await;
        drop(tokio::spawn(front_child()));
    }
}

/// Waits for it.
async fn back() {
    for _ in 0..ROUNDS {
        tokio::time::sleep(PACE).await;
        tokio::spawn(back_child()).await.expect("a child");
        tokio::task::spawn_blocking(|| back_closure([1; 24])).await.expect("a closure");
    }
}

fn spawning_closure() {
    for _ in 0..ROUNDS / 10 {
        std::thread::sleep(PACE);
        drop(tokio::spawn(closure_child()));
    }
}

fn crowd_closure(submitted_ns: u64) -> u64 {
    let waited_ns = now_ns() - submitted_ns;
    std::thread::sleep(10 * PACE);
    waited_ns
}

async fn crowd() {
    let closures: Vec<_> = (0..CROWD)
        .map(|_| {
            let submitted_ns = now_ns();
            tokio::task::spawn_blocking(move || crowd_closure(submitted_ns))
        })
        .collect();
    for closure in closures {
        say("waited", closure.await.expect("a closure"));
    }
}

fn main() {
    let options = Options::read();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let tasks = [tokio::spawn(front()), tokio::spawn(back())];
        let closure = tokio::task::spawn_blocking(spawning_closure);
        for _ in 0..ROUNDS / 2 {
            tokio::time::sleep(2 * PACE).await;
            tokio::spawn(root_child()).await.expect("a child");
        }
        for task in tasks {
            task.await.expect("a task");
        }
        closure.await.expect("a closure");
        tokio::spawn(crowd()).await.expect("a task");
    });
    say("rounds", ROUNDS);
    say("threads", THREADS as u64);
    end();
}
