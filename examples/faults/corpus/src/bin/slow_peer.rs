// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place asks a slow service over a blocking socket.
use corpus::{Expected, Run, Victims};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

static PEER: OnceLock<Mutex<UnixStream>> = OnceLock::new();

#[inline(never)]
fn ask_peer() {
    let mut peer = PEER.get().expect("connected").lock().expect("no thread panicked");
    let mut answer = [0; 8];
    let _ = peer.write_all(&answer);
    let _ = peer.read_exact(&mut answer);
}

corpus::places!(|job| {
    ask_peer();
});

fn answer(mut stream: UnixStream, after: Duration) {
    let mut request = [0; 8];
    while stream.read_exact(&mut request).is_ok() {
        std::thread::sleep(after);
        if stream.write_all(&request).is_err() {
            return;
        }
    }
}

fn main() {
    let run = Run::read("slow_peer");
    let size = run.size_us(300, 30_000);
    let (near, far) = UnixStream::pair().expect("sockets");
    PEER.get_or_init(|| Mutex::new(near));
    std::thread::spawn(move || answer(far, size));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into(), "ask_peer".into()];
    let findings = &["blocking_call"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
