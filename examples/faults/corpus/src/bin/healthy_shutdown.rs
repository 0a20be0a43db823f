// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: tasks that wait for the word that the service ends, get it half-way, and end.
use corpus::{burn, plain, Expected, Run, Victims};
use std::time::Duration;
use tokio::sync::watch;

async fn serve_until(mut ended: watch::Receiver<bool>) {
    let _ = ended.changed().await;
    burn(Duration::from_micros(5));
}

fn main() {
    let run = Run::read("healthy_shutdown");
    let count = run.size(10, 300);
    let runtime = run.runtime();
    runtime.block_on(async {
        let (end, ended) = watch::channel(false);
        let tasks: Vec<_> = (0..count).map(|_| tokio::spawn(serve_until(ended.clone()))).collect();
        let traffic = run.traffic(plain::spawn).await;
        tokio::time::sleep(run.left() * 3 / 4).await;
        end.send(true).expect("they wait");
        for task in tasks {
            task.await.expect("it ended");
        }
        for one in traffic {
            let _ = one.await;
        }
    });
    drop(runtime);
    run.end(count, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
