// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Healthy: many connections on which nothing comes, beside some that are used.
use corpus::{plain, Expected, Run, Victims};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};

async fn wait_for_client(mut stream: TcpStream) {
    let _ = stream.read_exact(&mut [0]).await;
}

fn main() {
    let run = Run::read("healthy_idle");
    let count = run.size(20, 400);
    let runtime = run.runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut near = Vec::new();
        for _ in 0..count {
            let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
            near.push(one);
            tokio::spawn(wait_for_client(other.expect("a connection").0));
        }
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    run.end(count, Expected { findings: &[], culprit: vec![], victims: Victims::None });
}
