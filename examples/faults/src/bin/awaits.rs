// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who awaits a closure of the blocking pool: a task, a set of a task, the future of block_on; and
//! closures that nothing awaits, though their end wakes a task: by what they send, or by what their
//! output drops.
use faults::{end, say, Options};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{spawn_blocking, JoinSet};

const ROUNDS: u64 = 40;
const RUN: Duration = Duration::from_millis(5);

/// What a closure keeps is as large as it says, so that no two have the same code, which a linker
/// would make one.
fn closure<const BYTES: usize>(kept: [u8; BYTES]) -> impl FnOnce() {
    move || run(std::hint::black_box(kept))
}

fn run<const BYTES: usize>(kept: [u8; BYTES]) {
    std::thread::sleep(RUN);
    std::hint::black_box(kept);
}

async fn patient() {
    for _ in 0..ROUNDS {
        spawn_blocking(closure([1; 24])).await.expect("a closure");
    }
}

async fn collector() {
    let mut set = JoinSet::new();
    for _ in 0..ROUNDS / 4 {
        for _ in 0..4 {
            set.spawn_blocking(closure([1; 48]));
        }
        while let Some(done) = set.join_next().await {
            done.expect("a closure");
        }
    }
}

/// The closure itself wakes this task.
async fn listener() {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for _ in 0..ROUNDS {
        let sender = sender.clone();
        drop(spawn_blocking(move || sending_closure(&sender)));
        receiver.recv().await.expect("a message");
    }
}

fn sending_closure(sender: &mpsc::UnboundedSender<()>) {
    run([1; 72]);
    sender.send(()).expect("a receiver");
}

/// What the closure returns wakes this task when it is dropped, since nothing awaits it.
async fn heir() {
    for _ in 0..ROUNDS {
        let (sender, receiver) = oneshot::channel::<()>();
        drop(spawn_blocking(move || dropped_closure(sender)));
        receiver.await.expect_err("no message");
    }
}

fn dropped_closure(sender: oneshot::Sender<()>) -> oneshot::Sender<()> {
    run([1; 96]);
    sender
}

fn main() {
    let options = Options::read();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let tasks = [
            tokio::spawn(patient()),
            tokio::spawn(collector()),
            tokio::spawn(listener()),
            tokio::spawn(heir()),
        ];
        for _ in 0..ROUNDS {
            spawn_blocking(closure([1; 120])).await.expect("a closure");
        }
        for task in tasks {
            task.await.expect("a task");
        }
    });
    say("rounds", ROUNDS);
    end();
}
