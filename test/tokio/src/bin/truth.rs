// SPDX-License-Identifier: Apache-2.0 OR MIT
//! truth: known functions burn known shares of the processor, known calls block inside polls, tasks
//! wait at known places, known amounts are allocated; in the end it says in one line of JSON what
//! each of them took by its own clocks and counts. `truth MILLISECONDS` of processor time to burn.
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read, Write};
use std::pin::Pin;
use std::sync::{mpsc as std_mpsc, Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, Semaphore};
use witness::waits::*;
use witness::{heap, multi_thread};

const LONG: Duration = Duration::from_millis(15);

/// Number of times and nanoseconds, by the name of a function.
type Sums = BTreeMap<&'static str, (u64, u64)>;

static CPU: Mutex<Sums> = Mutex::new(BTreeMap::new());
/// What of it fell in polls that took longer than LONG.
static LONG_POLLS: Mutex<Sums> = Mutex::new(BTreeMap::new());
static OFF: Mutex<Sums> = Mutex::new(BTreeMap::new());
static PLACES: Mutex<Sums> = Mutex::new(BTreeMap::new());
static HEAP: Mutex<Vec<heap::Known>> = Mutex::new(Vec::new());

fn add(sums: &Mutex<Sums>, name: &'static str, ns: u64) {
    let mut sums = sums.lock().unwrap();
    let sum = sums.entry(name).or_default();
    *sum = (sum.0 + 1, sum.1 + ns);
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn spin(count: u64) -> u64 {
    (0..count).fold(count, |sum, i| std::hint::black_box(sum.rotate_left(5) ^ i))
}

// ---- the processor ----

/// Burns so much of the thread's processor time, by a body of its own: equal ones may be folded.
macro_rules! burner {
    ($name:ident, $salt:expr) => {
        #[inline(never)]
        fn $name(ms: u64) {
            let begin = thread_cpu_ns();
            let mut sum = $salt;
            while thread_cpu_ns() - begin < ms * 1_000_000 {
                sum ^= spin(20_000 + $salt);
            }
            std::hint::black_box(sum);
            add(&CPU, stringify!($name), thread_cpu_ns() - begin);
        }
    };
}

burner!(burn_alpha, 1);
burner!(burn_beta, 2);
burner!(burn_gamma, 3);
burner!(burn_blocking, 4);
burner!(burn_thread, 5);

/// Touches pages for the first time, which is the kernel's work in this function's name.
#[inline(never)]
fn burn_faults(ms: u64) {
    const BYTES: usize = 4 << 20;
    let begin = thread_cpu_ns();
    while thread_cpu_ns() - begin < ms * 1_000_000 {
        unsafe {
            let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), BYTES, access, anonymous, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, BYTES, libc::MADV_NOHUGEPAGE);
            for page in (0..BYTES).step_by(4096) {
                at.cast::<u8>().add(page).write_volatile(1);
            }
            libc::munmap(at, BYTES);
        }
    }
    add(&CPU, "burn_faults", thread_cpu_ns() - begin);
}

/// The whole of a poll, but for what the runtime does around it.
fn in_poll<T>(call: impl FnOnce() -> T) -> T {
    let (begin, begin_ns) = (Instant::now(), thread_cpu_ns());
    let result = call();
    if begin.elapsed() > LONG {
        add(&LONG_POLLS, "all", thread_cpu_ns() - begin_ns);
    }
    result
}

async fn burn_in_slices(burn: fn(u64), slice_ms: u64, total_ms: u64) {
    for _ in 0..total_ms / slice_ms {
        in_poll(|| burn(slice_ms));
        tokio::task::yield_now().await;
    }
}

/// Of all that is burnt 40 % in polls of 20 ms, 25 % of 5 ms, 10 % of 1 ms, 10 % in page faults,
/// the rest outside of polls.
async fn burn_all(total_ms: u64) {
    let part = move |percent: u64| total_ms * percent / 100;
    let tasks = [
        tokio::spawn(burn_in_slices(burn_alpha, 20, part(40))),
        tokio::spawn(burn_in_slices(burn_beta, 5, part(25))),
        tokio::spawn(burn_in_slices(burn_gamma, 1, part(10))),
        tokio::spawn(burn_in_slices(burn_faults, 5, part(10))),
        tokio::task::spawn_blocking(move || burn_blocking(part(8))),
    ];
    let thread = std::thread::spawn(move || burn_thread(part(7)));
    for task in tasks {
        task.await.unwrap();
    }
    while !thread.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// ---- calls that block inside polls ----

fn time_off<T>(name: &'static str, call: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = call();
    add(&OFF, name, begin.elapsed().as_nanos() as u64);
    result
}

#[inline(never)]
fn known_sleep() {
    for _ in 0..30 {
        time_off("known_sleep", || std::thread::sleep(Duration::from_millis(4)));
    }
}

#[inline(never)]
fn known_lock() {
    let lock = Arc::new(Mutex::new(()));
    let (ask, asked) = std_mpsc::channel::<()>();
    let (tell, told) = std_mpsc::channel();
    let theirs = lock.clone();
    let holder = std::thread::spawn(move || {
        while asked.recv().is_ok() {
            let guard = theirs.lock().unwrap();
            tell.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(8));
            drop(guard);
        }
    });
    for _ in 0..20 {
        ask.send(()).unwrap();
        // By looking, not by waiting: the only wait is the one for the lock.
        while told.try_recv().is_err() {
            std::hint::spin_loop();
        }
        time_off("known_lock", || drop(lock.lock().unwrap()));
    }
    drop(ask);
    while !holder.is_finished() {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn known_recv(mut stream: std::net::TcpStream) {
    let mut byte = [0];
    for _ in 0..20 {
        time_off("known_recv", || stream.read_exact(&mut byte).unwrap());
    }
}

async fn block_all() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other, _) = listener.accept().unwrap();
    tokio::spawn(async { in_poll(known_sleep) }).await.unwrap();
    tokio::spawn(async { in_poll(known_lock) }).await.unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(6));
            other.write_all(b"x").unwrap();
        }
    });
    tokio::spawn(async move { in_poll(|| known_recv(stream)) }).await.unwrap();
    writer.join().unwrap();
}

// ---- await places ----

/// Behind a pointer, so that an optimised build keeps the function that waits: without debug
/// information nothing tells of one that is inlined.
fn kept<'a>(
    future: impl Future<Output = ()> + Send + 'a,
) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
    Box::pin(future)
}

/// Adds up what lies between its polls: a poll that is stopped for a while waits for nothing.
struct Idle<F> {
    future: F,
    since: Option<Instant>,
    ns: u64,
}

impl<F: Future<Output = ()> + Unpin> Future for Idle<F> {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        if let Some(since) = self.since.take() {
            self.ns += since.elapsed().as_nanos() as u64;
        }
        let polled = Pin::new(&mut self.future).poll(context);
        self.since = polled.is_pending().then(Instant::now);
        polled.map(|()| self.ns)
    }
}

fn wait_at(
    name: &'static str,
    future: impl Future<Output = ()> + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let idle = Idle { future: kept(future), since: None, ns: 0 };
    tokio::spawn(async move { add(&PLACES, name, idle.await) })
}

/// Many waits of many tasks, of which each is told.
async fn wait_often() {
    let (senders, tasks): (Vec<_>, Vec<_>) = (0..24)
        .map(|_| {
            let (sender, mut receiver) = mpsc::channel::<u32>(1);
            let task = tokio::spawn(async move {
                for _ in 0..150 {
                    let begin = Instant::now();
                    kept(wait_nap(&mut receiver)).await;
                    add(&PLACES, "wait_nap", begin.elapsed().as_nanos() as u64);
                }
            });
            (sender, task)
        })
        .unzip();
    // Not on a worker: nobody's polls are late for it.
    let waker = std::thread::spawn(move || {
        for _ in 0..150 {
            std::thread::sleep(Duration::from_millis(14));
            for sender in &senders {
                sender.blocking_send(1).unwrap();
            }
        }
    });
    for task in tasks {
        task.await.unwrap();
    }
    waker.join().unwrap();
}

#[inline(never)]
async fn wait_nap(receiver: &mut mpsc::Receiver<u32>) {
    let _ = receiver.recv().await;
}

/// Each waits for its own time, from 100 ms on.
async fn wait_everywhere() {
    let step = Duration::from_millis(100);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
    let mut accepted = server.accept().await.unwrap().0;
    let mutex = Arc::new(tokio::sync::Mutex::new(0));
    let guard = mutex.clone().lock_owned().await;
    let semaphore = Arc::new(Semaphore::new(0));
    let (tell, oneshot) = oneshot::channel();
    let (send, mpsc) = mpsc::channel(1);
    let (select_send, select_mpsc) = mpsc::channel(1);
    let (_select_tell, select_oneshot) = oneshot::channel();
    let sleeper = wait_at("wait_sleep", wait_sleep(step * 9));
    let waiting = [
        wait_at("wait_accept", wait_accept(listener)),
        wait_at("wait_read", wait_read(client)),
        wait_at("wait_mutex", wait_mutex(mutex)),
        wait_at("wait_semaphore", wait_semaphore(semaphore.clone())),
        wait_at("wait_oneshot", wait_oneshot(oneshot)),
        wait_at("wait_mpsc", wait_mpsc(mpsc)),
        wait_at("wait_join", wait_join(sleeper)),
        wait_at("wait_select", wait_select(select_mpsc, select_oneshot)),
    ];
    tokio::time::sleep(step).await;
    let connected = TcpStream::connect(address).await.unwrap();
    tokio::time::sleep(step).await;
    accepted.write_all(b"x").await.unwrap();
    tokio::time::sleep(step).await;
    drop(guard);
    tokio::time::sleep(step).await;
    semaphore.add_permits(1);
    tokio::time::sleep(step).await;
    tell.send(1).unwrap();
    tokio::time::sleep(step).await;
    send.send(1).await.unwrap();
    tokio::time::sleep(step).await;
    select_send.send(1).await.unwrap();
    for task in waiting {
        task.await.unwrap();
    }
    drop(connected);
}

async fn allocate_all() {
    for known in heap::FUNCTIONS {
        let sums = tokio::spawn(async move { in_poll(known) }).await.unwrap();
        HEAP.lock().unwrap().push(sums);
    }
}

// ---- what it was ----

fn say(name: &str, sums: &Mutex<Sums>) -> String {
    let rows: Vec<String> = sums
        .lock()
        .unwrap()
        .iter()
        .map(|(name, (count, ns))| format!("\"{name}\":{{\"count\":{count},\"ns\":{ns}}}"))
        .collect();
    format!("\"{name}\":{{{}}}", rows.join(","))
}

fn say_heap() -> String {
    let rows: Vec<String> = HEAP.lock().unwrap().iter().map(heap::Known::json).collect();
    format!("\"heap\":{{{}}}", rows.join(","))
}

fn main() {
    let total_ms = std::env::args().nth(1).map_or(4000, |text| text.parse().unwrap());
    let runtime = multi_thread(2).enable_all().build().unwrap();
    // What block_on polls itself is no task.
    runtime.block_on(async move {
        tokio::spawn(wait_everywhere()).await.unwrap();
        tokio::spawn(wait_often()).await.unwrap();
        tokio::spawn(block_all()).await.unwrap();
        tokio::spawn(allocate_all()).await.unwrap();
        // Who samples in windows for all the switches up to here sees that they are over.
        tokio::time::sleep(Duration::from_secs(1)).await;
        tokio::spawn(burn_all(total_ms)).await.unwrap();
    });
    drop(runtime);
    println!(
        "{{{},{},{},{},{},\"cpu_ns\":{}}}",
        say("cpu", &CPU),
        say("long_polls", &LONG_POLLS),
        say("off", &OFF),
        say("places", &PLACES),
        say_heap(),
        clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
    );
}
