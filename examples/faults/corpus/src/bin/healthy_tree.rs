// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: tasks start tasks, which start tasks, and each waits for those it has started.
use corpus::{burn, plain, Expected, Run, Victims};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

fn search(depth: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        burn(Duration::from_micros(3));
        if depth == 0 {
            return 1;
        }
        let (one, other) = (tokio::spawn(search(depth - 1)), tokio::spawn(search(depth - 1)));
        one.await.expect("it ended") + other.await.expect("it ended")
    })
}

fn main() {
    let run = Run::read("healthy_tree");
    let depth = run.within(2, 6);
    let every = Duration::from_millis(run.within(20, 100));
    let runtime = run.runtime();
    runtime.block_on(async {
        let traffic = run.traffic(plain::spawn).await;
        while !run.is_over() {
            tokio::spawn(search(depth)).await.expect("it ended");
            tokio::time::sleep(every).await;
        }
        for one in traffic {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(depth, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
