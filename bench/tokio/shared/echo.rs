// SPDX-License-Identifier: Apache-2.0 OR MIT
// The body of the echo server: prints its port, serves until `connections` clients have come and
// gone.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn serve_one(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0u8; 4096];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn echo_server(connections: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let mut set = Vec::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await.unwrap();
        set.push(spawn(serve_one(stream)));
    }
    for task in set {
        task.await.unwrap();
    }
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    println!("{}", ns(usage.ru_utime) + ns(usage.ru_stime));
}

fn connections_from_args() -> usize {
    std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(50)
}
