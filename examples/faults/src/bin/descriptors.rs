// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocking calls inside polls, each on another kind of descriptor: a pipe, a TCP socket whose peer
//! has a known port, one that times out, a locked file and a terminal. Each kind is a task of its
//! own; it states its tries, bytes and the port.
use faults::{end, say, Options};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Duration;

const TRIES: usize = 4;
const BYTES: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

fn pipe() -> (File, File) {
    let mut ends = [-1; 2];
    // SAFETY: the array has room for two descriptors, which are ours alone.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    }
}

fn terminal() -> (File, File) {
    let (mut leader, mut follower) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: as above; no name, modes or size are asked for.
    unsafe {
        assert_eq!(libc::openpty(&mut leader, &mut follower, none, none.cast(), none.cast()), 0);
        (File::from_raw_fd(leader), File::from_raw_fd(follower))
    }
}

/// Writes so much after each pause.
fn feed(mut to: impl Write + Send + 'static, bytes: &'static [u8]) {
    std::thread::spawn(move || {
        for _ in 0..TRIES {
            std::thread::sleep(PAUSE);
            to.write_all(bytes).expect("a reader");
        }
    });
}

/// Its reads block their worker.
async fn read_all(mut from: impl Read, name: &'static str) {
    for _ in 0..TRIES {
        let mut buffer = [0u8; BYTES];
        say(name, from.read(&mut buffer).expect("bytes") as u64);
    }
}

/// It never gets an answer.
async fn read_in_vain(mut from: TcpStream) {
    from.set_read_timeout(Some(PAUSE)).expect("a time-out");
    for _ in 0..TRIES {
        from.read(&mut [0u8; 1]).expect_err("nobody writes");
    }
}

/// Others hold the lock.
async fn lock(file: File) {
    for _ in 0..TRIES {
        // SAFETY: the descriptor is open.
        unsafe {
            assert_eq!(libc::flock(file.as_raw_fd(), libc::LOCK_EX), 0);
            assert_eq!(libc::flock(file.as_raw_fd(), libc::LOCK_UN), 0);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Locks the file whenever the other one does not have it, for a pause.
fn hold(file: File) {
    std::thread::spawn(move || loop {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) };
        std::thread::sleep(PAUSE);
        // SAFETY: the same.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        std::thread::yield_now();
    });
}

fn main() {
    let options = Options::read();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    say("tries", TRIES as u64);
    say("peer_port", address.port().into());
    options.runtime().block_on(async {
        let (from, to) = pipe();
        feed(to, &[b'x'; BYTES]);
        tokio::spawn(read_all(from, "pipe_bytes")).await.expect("a task");

        let client = TcpStream::connect(address).expect("a listener");
        feed(listener.accept().expect("a client").0, &[b'x'; BYTES]);
        tokio::spawn(read_all(client, "tcp_bytes")).await.expect("a task");

        let client = TcpStream::connect(address).expect("a listener");
        let quiet = listener.accept().expect("a client").0;
        tokio::spawn(read_in_vain(client)).await.expect("a task");
        drop(quiet);

        let (leader, follower) = terminal();
        feed(leader.try_clone().expect("a descriptor"), b"line\n");
        tokio::spawn(read_all(follower, "terminal_bytes")).await.expect("a task");
        drop(leader);

        let path = std::env::temp_dir().join(format!("kymo-lock-{}", std::process::id()));
        let held = File::create(&path).expect("a file");
        let file = File::open(&path).expect("the file");
        std::fs::remove_file(&path).expect("the file");
        hold(held);
        tokio::time::sleep(PAUSE / 2).await;
        tokio::spawn(lock(file)).await.expect("a task");
    });
    end();
}
