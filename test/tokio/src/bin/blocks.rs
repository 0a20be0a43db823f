// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks inside polls in known ways, one task each, and says what each of them took by its own
//! clock: lines of `NAME TASK COUNT NANOSECONDS`.
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};
use witness::multi_thread;

/// What one way of blocking took.
#[derive(Default)]
struct Took {
    count: u64,
    total: Duration,
}

impl Took {
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = call();
        self.total += begin.elapsed();
        self.count += 1;
        result
    }

    /// What may not have to wait, because its thread got no processor until the wait was over,
    /// counts only where the kernel saw it wait, and for a millisecond: of shorter ones a recorder
    /// may leave out what took under 100 us.
    fn time_if_it_waits<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = (waits_of_this_thread(), self.total, self.count);
        let result = self.time(call);
        if waits_of_this_thread() == before.0 || self.total - before.1 < Duration::from_millis(1) {
            (self.total, self.count) = (before.1, before.2);
        }
        result
    }
}

fn waits_of_this_thread() -> i64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    usage.ru_nvcsw
}

#[inline(never)]
fn known_sleep(took: &mut Took) {
    for _ in 0..50 {
        took.time(|| std::thread::sleep(Duration::from_millis(3)));
    }
}

/// More of them than are told one by one.
#[inline(never)]
fn known_naps(took: &mut Took) {
    for _ in 0..2500 {
        took.time(|| std::thread::sleep(Duration::from_micros(200)));
    }
}

#[inline(never)]
fn known_lock(took: &mut Took) {
    let lock = Arc::new(Mutex::new(()));
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let theirs = lock.clone();
    let holder = std::thread::spawn(move || {
        while asked.recv().is_ok() {
            let guard = theirs.lock().unwrap();
            tell.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(4));
            drop(guard);
        }
    });
    for _ in 0..30 {
        ask.send(()).unwrap();
        // By looking, not by waiting: the only wait is the one for the lock.
        while told.try_recv().is_err() {
            std::hint::spin_loop();
        }
        took.time_if_it_waits(|| drop(lock.lock().unwrap()));
    }
    drop(ask);
    // What joining takes is not asked for.
    while !holder.is_finished() {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn known_recv(took: &mut Took, stream: &mut TcpStream) {
    let mut byte = [0];
    for _ in 0..30 {
        took.time_if_it_waits(|| stream.read_exact(&mut byte).unwrap());
    }
}

/// So short that none of them is told.
#[inline(never)]
fn known_short(took: &mut Took, zero: &mut File) {
    let mut byte = [0];
    for _ in 0..20_000 {
        took.time(|| zero.read_exact(&mut byte).unwrap());
    }
}

async fn run(name: &'static str, call: impl FnOnce(&mut Took) + Send + 'static) {
    tokio::spawn(async move {
        let mut took = Took::default();
        call(&mut took);
        println!("{name} {} {} {}", tokio::task::id(), took.count, took.total.as_nanos());
    })
    .await
    .unwrap();
}

fn main() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    let mut zero = File::open("/dev/zero").unwrap();
    multi_thread(2).enable_all().build().unwrap().block_on(async move {
        run("sleep", known_sleep).await;
        run("lock", known_lock).await;
        std::thread::spawn(move || loop {
            std::thread::sleep(Duration::from_millis(4));
            if other.write_all(b"x").is_err() {
                return;
            }
        });
        run("recv", move |took| known_recv(took, &mut stream)).await;
        run("short", move |took| known_short(took, &mut zero)).await;
        run("naps", known_naps).await;
    });
}
