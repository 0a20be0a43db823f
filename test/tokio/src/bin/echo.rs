// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An echo server and its clients in one process: `echo [CONNECTIONS] [REQUESTS_EACH] [WORKERS]`.
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use witness::{counted, multi_thread, runtime_counts, say};

fn argument(index: usize, default: u64) -> u64 {
    std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn connection(mut socket: TcpStream) {
    let mut buf = [0u8; 256];
    loop {
        match socket.read(&mut buf).await {
            Ok(0) | Err(_) => return,
            Ok(n) => {
                if socket.write_all(&buf[..n]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn client(address: std::net::SocketAddr, requests: u64) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut buf = [7u8; 64];
    for _ in 0..requests {
        socket.write_all(&buf).await.unwrap();
        socket.read_exact(&mut buf).await.unwrap();
    }
}

async fn serve(listener: TcpListener, connections: u64) {
    let mut tasks = Vec::new();
    for _ in 0..connections {
        let (socket, _) = listener.accept().await.unwrap();
        tasks.push(tokio::spawn(counted(connection(socket))));
    }
    for task in tasks {
        task.await.unwrap()
    }
}

fn main() {
    let (connections, requests, workers) = (argument(1, 8), argument(2, 200), argument(3, 2));
    let runtime = multi_thread(workers).enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(counted(serve(listener, connections)));
        let clients: Vec<_> =
            (0..connections).map(|_| tokio::spawn(counted(client(address, requests)))).collect();
        for task in clients {
            task.await.unwrap()
        }
        server.await.unwrap()
    });
    let metrics = runtime.handle().metrics();
    drop(runtime);
    say("echo", &runtime_counts(&metrics));
}
