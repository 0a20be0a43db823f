// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Three blocking calls on TCP sockets of some seconds each, at the same time: a poll reads from a
//! peer that is silent, a closure writes to one that does not read, another connects to one that
//! accepts nobody. It states their ports.
use faults::{end, say, Options};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

const STAND: Duration = Duration::from_millis(3500);

fn port_of(listener: &TcpListener) -> u64 {
    listener.local_addr().expect("an address").port().into()
}

/// Blocks its worker.
async fn read_from_silence(mut from: TcpStream) {
    from.set_read_timeout(Some(STAND)).expect("a time-out");
    from.read_exact(&mut [0u8; 1]).expect_err("nobody writes");
}

fn write_to_the_deaf(mut to: TcpStream) {
    to.set_write_timeout(Some(STAND)).expect("a time-out");
    to.write_all(&[b'x'; 16 << 20]).expect_err("nobody reads");
}

/// Its queue of connections is full: the kernel drops what comes.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    // SAFETY: the descriptor is open.
    unsafe { assert_eq!(libc::listen(listener.as_raw_fd(), 0), 0) };
    let client = TcpStream::connect(address).expect("the one that there is room for");
    (listener, vec![client])
}

/// std's own connect with a time-out waits in poll(), whose descriptors nobody sees.
fn connect_in_vain(port: u64) {
    let time = libc::timeval { tv_sec: STAND.as_secs() as i64, tv_usec: 500_000 };
    // SAFETY: zeros are an address of no family.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_port = (port as u16).to_be();
    address.sin_addr.s_addr = u32::from_be_bytes([127, 0, 0, 1]).to_be();
    // SAFETY: what is pointed to lives longer than the calls, and has these sizes.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
        let (to, bytes) = ((&raw const time).cast(), size_of::<libc::timeval>() as u32);
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDTIMEO, to, bytes);
        libc::connect(fd, (&raw const address).cast(), size_of::<libc::sockaddr_in>() as u32);
        libc::close(fd);
    }
}

fn main() {
    let options = Options::read();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (full, _clients) = full_listener();
    let full_port = port_of(&full);
    say("peer_port", port_of(&listener));
    say("full_port", full_port);
    options.runtime().block_on(async {
        let silent = TcpStream::connect(address).expect("a listener");
        let deaf = TcpStream::connect(address).expect("a listener");
        let _peers = [listener.accept().expect("a client"), listener.accept().expect("a client")];
        say("read_port", silent.local_addr().expect("an address").port().into());
        say("write_port", deaf.local_addr().expect("an address").port().into());
        let write = tokio::task::spawn_blocking(move || write_to_the_deaf(deaf));
        let connect = tokio::task::spawn_blocking(move || connect_in_vain(full_port));
        tokio::spawn(read_from_silence(silent)).await.expect("a task");
        write.await.expect("a closure");
        connect.await.expect("a closure");
    });
    end();
}
