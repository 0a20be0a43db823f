// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The future of a block_on waits long and is woken by a task: on a runtime of several workers,
//! where its thread sleeps meanwhile, and on one of the current thread, where that thread polls the
//! tasks. Each says how long it waited.
use faults::{end, now_ns, say, Options};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

const WAIT: Duration = Duration::from_millis(60);

async fn answer(sender: oneshot::Sender<u64>) {
    tokio::time::sleep(WAIT).await;
    let _ = sender.send(now_ns());
}

async fn wait_for_answer(receiver: oneshot::Receiver<u64>) -> u64 {
    receiver.await.expect("an answer")
}

async fn root(name: &'static str, rounds: u64) {
    for _ in 0..rounds {
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(answer(sender));
        let since_ns = now_ns();
        wait_for_answer(receiver).await;
        say(name, now_ns() - since_ns);
    }
}

fn run(runtime: &Runtime, name: &'static str, rounds: u64) {
    runtime.block_on(root(name, rounds));
}

fn main() {
    let options = Options::read();
    let rounds = options.seconds * 5;
    run(&options.runtime(), "multi_thread", rounds);
    let current =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    run(&current, "current_thread", rounds);
    end();
}
