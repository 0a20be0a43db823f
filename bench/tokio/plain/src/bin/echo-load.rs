// SPDX-License-Identifier: Apache-2.0 OR MIT
// echo-load PORT CONNECTIONS [REQUESTS]: a closed loop on every connection, bounded by REQUESTS in
// all. Without REQUESTS it reads loads from its input, one a line, "REQUESTS CONNECTIONS": each
// runs over that many of the connections, which stay open between them. It prints one JSON object
// a load. Plain blocking sockets driven by one poll loop: the load must not depend on what it
// measures.
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Instant;

const MESSAGE: &[u8; 21] = b"hello from the load\r\n";

fn run(streams: &mut [TcpStream], requests: u64) {
    let mut polls: Vec<libc::pollfd> = streams
        .iter()
        .map(|s| libc::pollfd { fd: s.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let start = Instant::now();
    let (mut sent, mut received) = (0u64, 0u64);
    let mut began = vec![start; streams.len()];
    let mut latencies = Vec::with_capacity(requests as usize);
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(MESSAGE).unwrap();
        began[index] = Instant::now();
        sent += 1;
    }
    let mut buffer = [0u8; 4096];
    while received < sent {
        let ready = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, 10_000) };
        assert!(ready > 0, "the server stopped answering");
        for index in 0..streams.len() {
            if polls[index].revents == 0 {
                continue;
            }
            let mut got = 0;
            while got < MESSAGE.len() {
                let count = streams[index].read(&mut buffer).unwrap();
                assert!(count > 0, "the server closed a connection");
                got += count;
            }
            received += 1;
            let now = Instant::now();
            latencies.push((now - began[index]).as_nanos() as u64);
            if sent < requests {
                streams[index].write_all(MESSAGE).unwrap();
                began[index] = now;
                sent += 1;
            }
        }
    }
    let elapsed = start.elapsed();
    latencies.sort_unstable();
    let at = |q: f64| latencies[((latencies.len() - 1) as f64 * q) as usize];
    println!(
        "{{\"requests\":{},\"seconds\":{:.6},\"p50_ns\":{},\"p99_ns\":{},\"p999_ns\":{}}}",
        received,
        elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        at(0.999)
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().unwrap().parse().unwrap();
    let connections: usize = args.next().unwrap().parse().unwrap();
    let mut streams: Vec<TcpStream> = (0..connections)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_nodelay(true).unwrap();
            stream
        })
        .collect();
    if let Some(requests) = args.next() {
        run(&mut streams, requests.parse().unwrap());
        return;
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let (requests, over) = line.split_once(' ').unwrap();
        run(&mut streams[..over.parse().unwrap()], requests.parse().unwrap());
    }
}
