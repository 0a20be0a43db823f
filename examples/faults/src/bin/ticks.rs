// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: tasks that tick at their own pace and pass a word on. Nothing is late here.
use faults::{end, now_ns, say, Options, Random};
use std::time::Duration;
use tokio::sync::mpsc;

async fn tick(every: Duration, until_ns: u64, words: mpsc::Sender<u64>) {
    let mut interval = tokio::time::interval(every);
    while now_ns() < until_ns {
        interval.tick().await;
        if words.send(now_ns()).await.is_err() {
            return;
        }
    }
}

fn main() {
    let options = Options::read();
    let mut random = Random::new(options.seed);
    let until_ns = now_ns() + options.duration().as_nanos() as u64;
    let (sender, mut receiver) = mpsc::channel(64);
    options.runtime().block_on(async {
        let tasks = random.within(3, 8);
        for _ in 0..tasks {
            let every = Duration::from_millis(random.within(5, 40));
            tokio::spawn(tick(every, until_ns, sender.clone()));
        }
        drop(sender);
        let reader = tokio::spawn(async move {
            let mut words = 0;
            while receiver.recv().await.is_some() {
                words += 1;
            }
            words
        });
        say("words", reader.await.expect("the reader"));
        say("tasks", tasks + 1);
    });
    end();
}
