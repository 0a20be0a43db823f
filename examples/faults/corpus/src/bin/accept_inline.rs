// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The task that accepts connections serves each of them itself: who comes meanwhile waits in the
//! kernel's queue, which is long enough for all.
use corpus::{now_ns, plain, Expected, Run, Victims};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

type Accept = (TcpListener, Duration);

async fn serve(mut stream: TcpStream, step: Duration) -> std::io::Result<()> {
    let mut request = [0; 16];
    stream.read_exact(&mut request).await?;
    tokio::time::sleep(step).await;
    stream.write_all(&request).await
}

corpus::drawn! {
    async fn [serve_http ingress listen_api](accept: Accept) {
        let (listener, step) = accept;
        while let Ok((stream, _)) = listener.accept().await {
            let _ = serve(stream, step).await;
        }
    }
}

async fn visit(run: Arc<Run>, address: std::net::SocketAddr, mean_us: u64, due_ns: u64) {
    while !run.is_over() {
        tokio::time::sleep(Duration::from_micros(run.within(mean_us / 2, mean_us * 3 / 2))).await;
        let (from_ns, left) = (now_ns(), run.left());
        let visited = async {
            let mut stream = TcpStream::connect(address).await.ok()?;
            stream.write_all(&[7; 16]).await.ok()?;
            stream.read_exact(&mut [0; 16]).await.ok()
        };
        let _ = tokio::time::timeout(left, visited).await;
        run.waited(Victims::Queued, now_ns() - from_ns, due_ns);
    }
}

fn main() {
    let run = Run::read("accept_inline");
    let size = run.size_us(10_000, 60_000);
    let visitors = run.size(1, 32);
    let runtime = run.runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        spawn(run.hit, (listener, size));
        // Tokio rounds a sleep up to its tick.
        let due_ns = size.as_nanos() as u64 + 1_000_000;
        for _ in 0..visitors {
            tokio::spawn(visit(run.clone(), address, 200_000, due_ns));
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    let culprit = vec![NAMES[run.hit % NAMES.len()].into(), "serve".into()];
    let findings = &["accept_delayed"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::Queued });
}
