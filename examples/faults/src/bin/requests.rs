// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests over kept connections whose time is known: one connection for each way to spend it.
//! The server answers at once, sleeps, burns CPU, waits for the second half of a body that the
//! client holds back, asks another server, or is late because its one worker runs another request;
//! one connection is greeted by the server first, and one is closed without an answer.
//!
//! A client thread measures each request from before its first byte goes out to after the answer
//! came; the server measures from its first read to its answer. It states both sums a way, the
//! client's ports, and how many requests there were.
use faults::{burn, end, now_ns, say, Options};
use std::io::{Read, Write};
use std::net::TcpStream as Client;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const REQUEST: usize = 16;
const ANSWER: usize = 32;
const BODY: usize = 1000;
const REQUESTS: u64 = 20;
const PAUSE: Duration = Duration::from_millis(20);
const BURN: Duration = Duration::from_millis(5);
const HOLD: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
enum Way {
    Quick,
    Sleep,
    Burn,
    Body,
    Upstream,
    Hold, // the worker, so that what comes meanwhile becomes ready at once
    One,  // of two that burn at the same time
    Other,
    Greeted,
    Dropped,
}

const WAYS: [(Way, [&str; 4]); 10] = [
    (Way::Quick, ["quick_port", "quick_requests", "quick_client_ns", "quick_server_ns"]),
    (Way::Sleep, ["sleep_port", "sleep_requests", "sleep_client_ns", "sleep_server_ns"]),
    (Way::Burn, ["burn_port", "burn_requests", "burn_client_ns", "burn_server_ns"]),
    (Way::Body, ["body_port", "body_requests", "body_client_ns", "body_server_ns"]),
    (Way::Upstream, ["ask_port", "ask_requests", "ask_client_ns", "ask_server_ns"]),
    (Way::Hold, ["hold_port", "hold_requests", "hold_client_ns", "hold_server_ns"]),
    (Way::One, ["one_port", "one_requests", "one_client_ns", "one_server_ns"]),
    (Way::Other, ["other_port", "other_requests", "other_client_ns", "other_server_ns"]),
    (Way::Greeted, ["greeted_port", "greeted_requests", "greeted_client_ns", "greeted_server_ns"]),
    (Way::Dropped, ["dropped_port", "dropped_requests", "dropped_client_ns", "dropped_server_ns"]),
];

static SERVER_NS: [AtomicU64; WAYS.len()] = [const { AtomicU64::new(0) }; WAYS.len()];

// ---- the server ----

async fn ask(port: u16) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(&[0; REQUEST]).await?;
    stream.read_exact(&mut [0; ANSWER]).await?;
    Ok(())
}

/// Until the client closes it.
async fn serve(mut stream: TcpStream, upstream: u16) -> std::io::Result<()> {
    let mut buffer = [0u8; REQUEST + BODY];
    loop {
        let mut have = stream.read(&mut buffer).await?;
        let begin = now_ns();
        if have == 0 {
            return Ok(());
        }
        let (way, _) = WAYS[buffer[0] as usize];
        let bytes = REQUEST + if way == Way::Body { BODY } else { 0 };
        while have < bytes {
            have += stream.read(&mut buffer[have..]).await?;
        }
        match way {
            Way::Quick | Way::Body | Way::Greeted => (),
            Way::Sleep => tokio::time::sleep(PAUSE).await,
            Way::Burn | Way::One | Way::Other => drop(burn(BURN)),
            Way::Upstream => ask(upstream).await?,
            Way::Hold => std::thread::sleep(HOLD),
            Way::Dropped => return Ok(()),
        }
        SERVER_NS[way as usize].fetch_add(now_ns() - begin, Relaxed);
        stream.write_all(&[0; ANSWER]).await?;
    }
}

async fn accept(listener: TcpListener, greeter: TcpListener, upstream: u16) {
    loop {
        let stream = tokio::select! {
            one = listener.accept() => one.expect("a connection").0,
            one = greeter.accept() => {
                let mut stream = one.expect("a connection").0;
                stream.write_all(&[0; ANSWER]).await.expect("a client");
                stream
            }
        };
        tokio::spawn(serve(stream, upstream));
    }
}

/// A server of a thread, without tasks.
fn upstream() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            stream.read_exact(&mut [0; REQUEST]).expect("a request");
            std::thread::sleep(PAUSE);
            stream.write_all(&[0; ANSWER]).expect("a client");
        }
    });
    port
}

// ---- the client ----

struct Connection {
    way: Way,
    stream: Client,
    client_ns: u64,
    requests: u64,
}

impl Connection {
    fn new(way: Way, port: u16) -> Connection {
        let stream = Client::connect(("127.0.0.1", port)).expect("the server");
        stream.set_nodelay(true).expect("a socket");
        Connection { way, stream, client_ns: 0, requests: 0 }
    }

    fn send(&mut self) {
        let mut request = [0u8; REQUEST];
        request[0] = self.way as u8;
        self.stream.write_all(&request).expect("the server");
        if self.way == Way::Body {
            self.stream.write_all(&[0; BODY / 2]).expect("the server");
            std::thread::sleep(PAUSE);
            self.stream.write_all(&[0; BODY / 2]).expect("the server");
        }
    }

    fn request(&mut self) {
        let begin = now_ns();
        self.send();
        self.stream.read_exact(&mut [0; ANSWER]).expect("an answer");
        self.client_ns += now_ns() - begin;
        self.requests += 1;
    }

    fn state(&self) {
        let names = WAYS[self.way as usize].1;
        say(names[0], self.stream.local_addr().expect("it is connected").port().into());
        say(names[1], self.requests);
        say(names[2], self.client_ns);
        say(names[3], SERVER_NS[self.way as usize].load(Relaxed));
    }
}

/// While the worker is held two requests arrive: the driver finds both at once, and one waits for
/// the other.
fn two_at_once(port: u16) -> Vec<Connection> {
    let start = Arc::new(Barrier::new(3));
    let threads: Vec<_> = [Way::Hold, Way::One, Way::Other]
        .into_iter()
        .map(|way| {
            let start = start.clone();
            std::thread::spawn(move || {
                let mut connection = Connection::new(way, port);
                for _ in 0..REQUESTS {
                    start.wait();
                    if way != Way::Hold {
                        std::thread::sleep(HOLD / 3);
                    }
                    connection.request();
                }
                connection
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("it did not panic")).collect()
}

fn client(port: u16, greeter: u16) {
    let mut all = Vec::new();
    for way in [Way::Quick, Way::Sleep, Way::Burn, Way::Body, Way::Upstream, Way::Greeted] {
        let mut one = Connection::new(way, if way == Way::Greeted { greeter } else { port });
        if way == Way::Greeted {
            one.stream.read_exact(&mut [0; ANSWER]).expect("a greeting");
        }
        for _ in 0..REQUESTS {
            one.request();
        }
        all.push(one);
    }
    all.extend(two_at_once(port));
    let mut dropped = Connection::new(Way::Dropped, port);
    dropped.send();
    assert_eq!(dropped.stream.read(&mut [0]).expect("an end"), 0);
    all.push(dropped);
    for one in &all {
        one.state();
    }
}

fn main() {
    let options = Options { workers: 1, ..Options::read() };
    let upstream = upstream();
    let runtime = options.runtime();
    let bind = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let (listener, greeter) = (bind(), bind());
    let port_of = |one: &TcpListener| one.local_addr().expect("it is bound").port();
    let (port, greeter_port) = (port_of(&listener), port_of(&greeter));
    runtime.spawn(accept(listener, greeter, upstream));
    client(port, greeter_port);
    say("server_port", port.into());
    say("upstream_server_port", upstream.into());
    say("answer_bytes", ANSWER as u64);
    say("request_bytes", REQUEST as u64);
    say("body_bytes", BODY as u64);
    say("pause_ns", PAUSE.as_nanos() as u64);
    say("burn_ns", BURN.as_nanos() as u64);
    runtime.shutdown_timeout(Duration::from_secs(1));
    end();
}
