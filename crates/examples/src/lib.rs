// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client for the servers among the examples: no task of it belongs to them.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Requests over so many connections, each of which is used again and again. Returns how many were
/// answered by 200.
pub fn load(address: SocketAddr, path: &str, connections: usize, requests: usize) -> usize {
    let threads: Vec<_> = (0..connections)
        .map(|_| {
            let path = path.to_owned();

            std::thread::spawn(move || one_connection(address, &path, requests))
        })
        .collect();

    threads.into_iter().map(|thread| thread.join().expect("a client panicked")).sum()
}

fn one_connection(address: SocketAddr, path: &str, requests: usize) -> usize {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: example\r\n\r\n");
    let mut buffer = [0; 4096];
    let mut answered = 0;

    stream.set_nodelay(true).expect("a socket option");
    for _ in 0..requests {
        stream.write_all(request.as_bytes()).expect("the server reads");
        let count = stream.read(&mut buffer).expect("the server answers");

        answered += usize::from(buffer[..count].starts_with(b"HTTP/1.1 200"));
    }
    answered
}
