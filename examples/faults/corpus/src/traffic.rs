// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The traffic: clients send requests over loopback to four places and measure each answer, and a
//! heartbeat measures how late it is.

use crate::{burn, now_ns, Random, Run, Victims};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub const PLACES: usize = 4;
const MESSAGE: usize = 16;

/// A connection that a place serves.
pub struct Job {
    stream: TcpStream,
    /// The fault is here.
    pub hit: bool,
    pub run: Arc<Run>,
    work: Duration,
}

impl Job {
    /// Waits for a request. False: the client has left.
    pub async fn next(&mut self) -> bool {
        let mut request = [0; MESSAGE];
        self.stream.read_exact(&mut request).await.is_ok()
    }

    pub async fn reply(&mut self) {
        let _ = self.stream.write_all(&[1; MESSAGE]).await;
    }

    /// The same connection, served by the runtime that the caller is in.
    pub fn adopt(self) -> Job {
        let stream = self.stream.into_std().expect("a socket");
        Job { stream: TcpStream::from_std(stream).expect("a runtime"), ..self }
    }

    /// What each request costs anyway.
    pub fn work(&self) {
        burn(self.work);
    }
}

/// Places without a fault.
pub mod plain {
    crate::places!(|_job| {});
}

async fn client(run: Arc<Run>, mut stream: TcpStream, victims: Victims, mean_us: u64, seed: u64) {
    let mut random = Random::new(seed);
    while !run.is_over() {
        tokio::time::sleep(Duration::from_micros(random.within(mean_us / 2, mean_us * 3 / 2)))
            .await;
        let (from_ns, mut answer) = (now_ns(), [0; MESSAGE]);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
        // What is not answered at the end has waited until then.
        let read = tokio::time::timeout(run.left(), stream.read_exact(&mut answer));
        let _ = read.await;
        let due_ns =
            if victims == Victims::Own { run.own_due_ns.load(Ordering::Relaxed) } else { 0 };
        run.waited(victims, now_ns() - from_ns, due_ns);
    }
}

async fn heartbeat(run: Arc<Run>) {
    let every = Duration::from_millis(run.within(5, 20));
    let due = every + Duration::from_millis(1); // Tokio rounds up to its tick
    while !run.is_over() {
        let from_ns = now_ns();
        tokio::time::sleep(every).await;
        run.waited(Victims::Others, now_ns() - from_ns, due.as_nanos() as u64);
    }
}

impl Run {
    /// Starts the traffic; `spawn` starts one of the places on a connection. Wait for the handles:
    /// they are the clients, who leave when the run is over.
    pub async fn traffic(
        self: &Arc<Run>,
        spawn: fn(usize, Job) -> JoinHandle<()>,
    ) -> Vec<JoinHandle<()>> {
        self.crowd(spawn, 1).await
    }

    /// The same, with so many times more connections, of less traffic each.
    pub async fn crowd(
        self: &Arc<Run>,
        spawn: fn(usize, Job) -> JoinHandle<()>,
        times: usize,
    ) -> Vec<JoinHandle<()>> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut clients = vec![tokio::spawn(heartbeat(self.clone()))];
        let work = self.size_us(5, 50);
        let each = self.within(1, 4) as usize * times;
        let mean_us = (PLACES * each) as u64 * 1_000_000 / self.requests_per_second;
        for place in (0..PLACES).flat_map(|place| std::iter::repeat(place).take(each)) {
            let connect = TcpStream::connect(address);
            let (near, far) = tokio::join!(connect, listener.accept());
            let hit = place == self.hit;
            let stream = far.expect("a connection").0;
            spawn(place, Job { stream, hit, run: self.clone(), work });
            let victims = if hit { Victims::Own } else { Victims::Others };
            let near = near.expect("a connection");
            let seed = self.within(1, u64::MAX - 2);
            clients.push(tokio::spawn(client(self.clone(), near, victims, mean_us, seed)));
        }
        clients
    }

    /// The whole life of a program whose fault lies in one of the places.
    pub fn serve(self: &Arc<Run>, spawn: fn(usize, Job) -> JoinHandle<()>) {
        let runtime = self.runtime();
        runtime.block_on(async {
            for one in self.traffic(spawn).await {
                let _ = one.await;
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(200));
    }
}
