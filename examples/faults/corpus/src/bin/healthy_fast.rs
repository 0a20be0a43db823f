// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: many tasks that hand each other words as fast as they can take them, for short times.
use corpus::{plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

async fn echo(mut words: mpsc::Receiver<u64>, answers: mpsc::Sender<u64>) {
    while let Some(word) = words.recv().await {
        let _ = answers.send(word).await;
    }
}

async fn converse(run: Arc<Run>, words: u64) {
    let (to, received) = mpsc::channel(16);
    let (answer, mut answers) = mpsc::channel(16);
    tokio::spawn(echo(received, answer));
    while !run.is_over() {
        for word in 0..words {
            let _ = to.send(word).await;
            answers.recv().await;
        }
        tokio::time::sleep(Duration::from_millis(run.within(5, 15))).await;
    }
}

fn main() {
    let run = Run::read("healthy_fast");
    let words = run.size(2, 40);
    let count = run.within(4, 40);
    let runtime = run.runtime();
    runtime.block_on(async {
        for _ in 0..count {
            tokio::spawn(converse(run.clone(), words));
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(words, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
