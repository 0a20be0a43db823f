// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that are polled often for a while and then wait for long: by leaves that register their
//! waker anew, by leaves that keep it, and at several at once. Each says how long it waited.
use faults::{end, now_ns, say, Options};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Notify, Semaphore};

const BURST: u64 = 100;

/// A hundred polls, each of which registers a waker elsewhere.
async fn be_busy(words: &mut mpsc::Receiver<u64>, back: &mpsc::Sender<u64>) {
    for _ in 0..BURST {
        let _ = back.send(1).await;
        let _ = words.recv().await;
    }
}

/// A partner that answers each word at once.
fn partner() -> (mpsc::Receiver<u64>, mpsc::Sender<u64>) {
    let (sender, mut receiver) = mpsc::channel(1);
    let (answer, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(word) = receiver.recv().await {
            let _ = answer.send(word).await;
        }
    });
    (answers, sender)
}

async fn wait_sleep(wait: Duration) {
    tokio::time::sleep(wait).await;
}

async fn wait_semaphore(semaphore: &Semaphore) {
    semaphore.acquire().await.expect("it stays open").forget();
}

async fn wait_read(stream: &mut TcpStream) {
    let mut byte = [0];
    stream.read_exact(&mut byte).await.expect("a byte");
}

async fn wait_select(stream: &mut TcpStream, notify: &Notify) {
    let mut byte = [0];
    tokio::select! {
        _ = stream.read_exact(&mut byte) => {}
        _ = notify.notified() => {}
    }
}

fn said(name: &'static str, since_ns: u64) {
    say(name, now_ns() - since_ns);
}

async fn sleeper(wait: Duration, until_ns: u64) {
    let (mut words, back) = partner();
    while now_ns() < until_ns {
        be_busy(&mut words, &back).await;
        let since_ns = now_ns();
        wait_sleep(wait).await;
        said("sleep", since_ns);
    }
}

async fn acquirer(wait: Duration, until_ns: u64) {
    let (mut words, back) = partner();
    let semaphore = Arc::new(Semaphore::new(0));
    while now_ns() < until_ns {
        be_busy(&mut words, &back).await;
        let giver = semaphore.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            giver.add_permits(1);
        });
        let since_ns = now_ns();
        wait_semaphore(&semaphore).await;
        said("semaphore", since_ns);
    }
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    (one.expect("a connection"), other.expect("a connection").0)
}

async fn reader(wait: Duration, until_ns: u64) {
    let (mut words, back) = partner();
    let (mut here, mut there) = pair().await;
    while now_ns() < until_ns {
        be_busy(&mut words, &back).await;
        let writer = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            there.write_all(&[1]).await.expect("it reads");
            there
        });
        let since_ns = now_ns();
        wait_read(&mut here).await;
        said("read", since_ns);
        there = writer.await.expect("it wrote");
    }
}

async fn selecter(wait: Duration, until_ns: u64) {
    let (mut words, back) = partner();
    let (mut here, _there) = pair().await;
    let notify = Arc::new(Notify::new());
    while now_ns() < until_ns {
        be_busy(&mut words, &back).await;
        let notifier = notify.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            notifier.notify_one();
        });
        let since_ns = now_ns();
        wait_select(&mut here, &notify).await;
        said("select", since_ns);
    }
}

fn main() {
    let options = Options::read();
    let until_ns = now_ns() + options.duration().as_nanos() as u64;
    options.runtime().block_on(async {
        let mut tasks = Vec::new();
        for i in 0..8 {
            let wait = Duration::from_millis(100 + 10 * i);
            tasks.push(tokio::spawn(sleeper(wait, until_ns)));
            tasks.push(tokio::spawn(acquirer(wait, until_ns)));
            tasks.push(tokio::spawn(reader(wait, until_ns)));
            tasks.push(tokio::spawn(selecter(wait, until_ns)));
        }
        for task in tasks {
            task.await.expect("no task panicked");
        }
    });
    end();
}
