// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that wait for words that nobody sends, until the runtime is dropped; and one poll in the
//! middle that blocks its worker for half a second.
use faults::{end, now_ns, say, Options};
use std::time::Duration;
use tokio::sync::oneshot;

async fn wait_for_word(word: oneshot::Receiver<u64>) {
    let _ = word.await;
}

async fn block() {
    tokio::time::sleep(Duration::from_millis(200)).await;
    let begin_ns = now_ns();
    std::thread::sleep(Duration::from_millis(500));
    say("blocked_ns", now_ns() - begin_ns);
}

fn main() {
    let options = Options::read();
    let runtime = options.runtime();
    let mut senders = Vec::new();
    runtime.block_on(async {
        for _ in 0..20 {
            let (sender, word) = oneshot::channel();
            senders.push(sender);
            tokio::spawn(wait_for_word(word));
        }
        say("waiting", 20);
        say("waiting_since_ns", now_ns());
        tokio::spawn(block()).await.expect("the task that blocks");
        tokio::time::sleep(options.duration()).await;
    });
    say("shutdown_ns", now_ns());
    drop(runtime);
    end();
}
