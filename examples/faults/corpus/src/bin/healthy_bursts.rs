// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: from time to time a batch of short tasks, which the workers have done in a moment.
use corpus::{burn, plain, Expected, Run, Victims};
use std::time::Duration;

async fn resize_thumbnail() {
    burn(Duration::from_micros(10));
    tokio::task::yield_now().await;
    burn(Duration::from_micros(10));
}

fn main() {
    let run = Run::read("healthy_bursts");
    let count = run.size(5, 100);
    let every = Duration::from_millis(run.within(50, 200));
    let runtime = run.runtime();
    runtime.block_on(async {
        let traffic = run.traffic(plain::spawn).await;
        while !run.is_over() {
            for task in (0..count).map(|_| tokio::spawn(resize_thumbnail())).collect::<Vec<_>>() {
                task.await.expect("it ended");
            }
            tokio::time::sleep(every).await;
        }
        for one in traffic {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(count, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
