// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three tasks of one type and five of another, whose code is the same but for its names: a linker
//! may fold it into one (--icf=all). Each task waits for its own word, so it is polled twice.
use faults::{end, say, Options};
use tokio::sync::oneshot;

async fn three(word: oneshot::Receiver<u64>) -> u64 {
    word.await.expect("a word")
}

async fn five(word: oneshot::Receiver<u64>) -> u64 {
    word.await.expect("a word")
}

fn main() {
    let options = Options::read();
    options.runtime().block_on(async {
        let (mut senders, mut tasks) = (Vec::new(), Vec::new());
        for number in 0..8 {
            let (sender, word) = oneshot::channel();
            senders.push(sender);
            tasks.push(match number {
                0..3 => tokio::spawn(three(word)),
                _ => tokio::spawn(five(word)),
            });
        }
        tokio::time::sleep(options.duration()).await;
        for (number, sender) in senders.into_iter().enumerate() {
            sender.send(number as u64).expect("a task that waits");
        }
        for task in tasks {
            task.await.expect("its end");
        }
    });
    say("three", 3);
    say("five", 5);
    end();
}
