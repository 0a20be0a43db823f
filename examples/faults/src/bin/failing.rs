// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that has no descriptor left: each accept() fails with EMFILE, 1,000 times; and a task
//! that reads 5,000 times from a socket to which nobody writes, and yields in between.
use faults::{end, say, Options};
use std::io::{ErrorKind, Read};
use std::net::{TcpListener as StdListener, TcpStream};
use std::time::Duration;
use tokio::net::TcpListener;

const FULL: u64 = 1000;
const ROW: u64 = 5000;

/// No more than the process has by now.
fn use_descriptors_up() {
    let next = std::fs::File::open("/dev/null").expect("one more descriptor");
    let limit = std::os::fd::AsRawFd::as_raw_fd(&next) as libc::rlim_t;
    let limits = libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: the structure is ours.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limits) }, 0);
}

async fn serve(listener: TcpListener) {
    let mut full = 0;
    while full < FULL {
        match listener.accept().await {
            Ok(_) => panic!("a descriptor was left"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EMFILE)),
        }
        full += 1;
        tokio::task::yield_now().await;
    }
    say("full", full);
}

async fn spin(mut socket: TcpStream) {
    for _ in 0..ROW {
        let error = socket.read(&mut [0; 1]).expect_err("nobody writes");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        tokio::task::yield_now().await;
    }
    say("row", ROW);
}

fn main() {
    let options = Options::read();
    options.runtime().block_on(async {
        let quiet = StdListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(quiet.local_addr().expect("its port")).expect("a socket");
        socket.set_nonblocking(true).expect("its mode");
        let busy = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = busy.local_addr().expect("its port");
        let _client = TcpStream::connect(port).expect("a client that waits");
        tokio::time::sleep(Duration::from_millis(100)).await;
        use_descriptors_up();
        let (server, spinner) = (tokio::spawn(serve(busy)), tokio::spawn(spin(socket)));
        server.await.expect("the server");
        spinner.await.expect("the task that spins");
    });
    end();
}
