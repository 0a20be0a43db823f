// SPDX-License-Identifier: Apache-2.0 OR MIT
// The body of an echo server and its clients in one process, on one worker: the same polls, wakes
// and parks in every run, for callgrind to count the worker's instructions. It counts between the
// first and the last of `requests`, after as many to warm up.

use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

const CONNECTIONS: u64 = 4;
const MESSAGE: &[u8; 21] = b"hello from the load\r\n";

async fn serve_one(mut stream: TcpStream) {
    let mut buffer = [0u8; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => stream.write_all(&buffer[..count]).await.unwrap(),
        }
    }
}

include!("toggle.rs");

async fn ask(stream: &mut TcpStream, requests: u64) {
    let mut buffer = [0u8; MESSAGE.len()];
    for _ in 0..requests {
        stream.write_all(MESSAGE).await.unwrap();
        stream.read_exact(&mut buffer).await.unwrap();
    }
}

async fn ask_twice(mut stream: TcpStream, requests: u64, warm: Arc<Barrier>) {
    ask(&mut stream, requests).await;
    if warm.wait().await.is_leader() {
        toggle_counting();
    }
    ask(&mut stream, requests).await;
    if warm.wait().await.is_leader() {
        toggle_counting();
    }
}

async fn echo_inside(requests: u64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let warm = Arc::new(Barrier::new(CONNECTIONS as usize));
    let mut set = Vec::new();
    for _ in 0..CONNECTIONS {
        let client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        set.push(spawn(serve_one(server)));
        set.push(spawn(ask_twice(client, requests / CONNECTIONS, warm.clone())));
    }
    for task in set {
        task.await.unwrap();
    }
}

fn requests_from_args() -> u64 {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(4_000)
}
