// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The task that accepts connections waits between two of them: they queue in the kernel.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

type Accept = (TcpListener, Duration);

corpus::drawn! {
    async fn [serve_http ingress listen_api](accept: Accept) {
        let (listener, pause) = accept;
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(&[1]).await;
            tokio::time::sleep(pause).await;
        }
    }
}

async fn visit(run: Arc<Run>, address: std::net::SocketAddr, mean_us: u64) {
    while !run.is_over() {
        tokio::time::sleep(Duration::from_micros(run.within(mean_us / 2, mean_us * 3 / 2))).await;
        let (from_ns, left) = (now_ns(), run.left());
        let visited = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            stream.read_exact(&mut [0]).await.ok()
        };
        let _ = tokio::time::timeout(left, visited).await;
        run.waited(Victims::Queued, now_ns() - from_ns, 0);
    }
}

fn main() {
    let run = Run::read("slow_accept");
    let size = run.size_us(1_000, 100_000);
    let runtime = run.runtime();
    runtime.block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(run.within(2, 16) as u32).expect("a listener");
        let address = listener.local_addr().expect("an address");
        spawn(run.hit, (listener, size));
        for _ in 0..16 {
            tokio::spawn(visit(run.clone(), address, 200_000));
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into()];
    let findings = &["accept_queue_overflow", "accept_delayed"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Queued });
}
