// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ways MS`: an ordinary program, busy for so many milliseconds from its first poll on.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn count_for(time: Duration, polls: Arc<AtomicU64>) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        polls.fetch_add(1, Relaxed);
        tokio::task::yield_now().await;
        if polls.load(Relaxed) % 64 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let milliseconds: u64 = arguments.next().expect("milliseconds").parse().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let polls = Arc::new(AtomicU64::new(0));
    runtime.unwrap().block_on(async {
        let time = Duration::from_millis(milliseconds);
        let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(count_for(time, polls.clone()))).collect();
        for task in tasks {
            task.await.unwrap()
        }
    });
    println!("done");
    std::process::exit(9)
}
