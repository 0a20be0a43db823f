// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wakes of every cause: a descriptor, a timer, a yield, the end of a task, of a closure on the
//! blocking pool, another task, a thread beside the runtime. Each so often as it says at its end.
use faults::{end, say, Options};
use std::io::Write;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};

const ROUNDS: u64 = 200;
const PACE: Duration = Duration::from_millis(2);

/// Reads what a thread without a runtime writes, byte by byte.
async fn read_bytes(listener: tokio::net::TcpListener) -> u64 {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let (mut byte, mut reads) = ([0u8; 1], 0);
    while stream.read(&mut byte).await.expect("a byte") == 1 {
        reads += 1;
    }
    reads
}

async fn sleep_often() {
    for _ in 0..ROUNDS {
        tokio::time::sleep(PACE).await;
    }
}

async fn yield_often() {
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}

/// Each child waits for a moment, so that its end wakes this task.
async fn join_often() {
    for _ in 0..ROUNDS / 4 {
        tokio::spawn(tokio::time::sleep(PACE)).await.expect("a child");
        tokio::task::spawn_blocking(|| std::thread::sleep(PACE)).await.expect("a closure");
    }
}

#[inline(never)]
fn feed(sender: &mpsc::UnboundedSender<u64>, number: u64) {
    sender.send(number).expect("a receiver");
    std::hint::black_box(number); // no tail call: the frame of this function must be there
}

#[inline(never)]
fn answer(sender: oneshot::Sender<u64>, number: u64) {
    let _ = sender.send(number);
    std::hint::black_box(number);
}

async fn receive_all(mut receiver: mpsc::UnboundedReceiver<u64>) -> u64 {
    let mut count = 0;
    while receiver.recv().await.is_some() {
        count += 1;
    }
    count
}

/// Asks another task, which waits before it answers.
async fn ask_often(questions: mpsc::UnboundedSender<oneshot::Sender<u64>>) {
    for _ in 0..ROUNDS {
        let (sender, receiver) = oneshot::channel();
        questions.send(sender).expect("who answers");
        receiver.await.expect("an answer");
    }
}

async fn answer_all(mut questions: mpsc::UnboundedReceiver<oneshot::Sender<u64>>) {
    while let Some(sender) = questions.recv().await {
        tokio::time::sleep(PACE / 2).await;
        answer(sender, 42);
    }
}

fn main() {
    let options = Options::read();
    let (sender, receiver) = mpsc::unbounded_channel();
    let (questions, asked) = mpsc::unbounded_channel();
    options.runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its number");
        let mut tasks = vec![
            tokio::spawn(sleep_often()),
            tokio::spawn(yield_often()),
            tokio::spawn(join_often()),
            tokio::spawn(ask_often(questions)),
            tokio::spawn(answer_all(asked)),
        ];
        let reader = tokio::spawn(read_bytes(listener));
        let receiver = tokio::spawn(receive_all(receiver));
        let writer = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).expect("a connection");
            stream.set_nodelay(true).expect("no delay");
            for _ in 0..ROUNDS {
                std::thread::sleep(PACE);
                stream.write_all(b"x").expect("a reader");
            }
        });
        let feeder = std::thread::Builder::new().name("feeder".into()).spawn(move || {
            for number in 0..ROUNDS {
                std::thread::sleep(PACE);
                feed(&sender, number);
            }
        });
        for task in tasks.drain(..) {
            task.await.expect("a task");
        }
        say("reads", reader.await.expect("the reader"));
        say("received", receiver.await.expect("the receiver"));
        writer.join().expect("the writer");
        feeder.expect("a thread").join().expect("the feeder");
    });
    say("rounds", ROUNDS);
    end();
}
