// SPDX-License-Identifier: Apache-2.0 OR MIT
//! places: prints its pid, and after a line of input starts tasks that wait at known places, for as
//! long as it takes; it says how often futures were polled. `places SECONDS`.
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, Mutex, Semaphore};
use witness::waits::*;

static POLLS: AtomicU64 = AtomicU64::new(0);
static ENDS: AtomicU64 = AtomicU64::new(0);

/// Counts the polls of what it wraps.
struct Counted(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Future for Counted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        POLLS.fetch_add(1, Ordering::Relaxed);
        let result = self.0.as_mut().poll(context);
        if result.is_ready() {
            ENDS.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}

/// Polled some times before it comes to where it stays.
#[inline(never)]
async fn wait_second(mut receiver: mpsc::Receiver<u32>, semaphore: Arc<Semaphore>) {
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let _ = receiver.recv().await;
    let _permit = semaphore.acquire().await;
}

/// Waits for a line of input, polled all the time: its chain in a report shows that the recorder
/// has what it needs to walk the stacks of the polls that follow.
#[inline(never)]
async fn wait_for_line() {
    let has_come = Arc::new(AtomicBool::new(false));
    let flag = has_come.clone();

    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        flag.store(true, Ordering::Relaxed);
    });
    while !has_come.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn spawn<F: Future<Output = ()> + Send + 'static>(future: F) -> tokio::task::JoinHandle<()> {
    tokio::spawn(Counted(Box::pin(future)))
}

async fn run(seconds: u64) {
    println!("{{\"pid\":{}}}", std::process::id());
    tokio::spawn(wait_for_line()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let accepted = server.accept().await.unwrap();
    let mutex = Arc::new(Mutex::new(0));
    let guard = mutex.clone().lock_owned().await;
    let semaphore = Arc::new(Semaphore::new(0));
    let (_oneshot, oneshot) = oneshot::channel();
    let (_mpsc, mpsc) = mpsc::channel(1);
    let (_select_mpsc, select_mpsc) = mpsc::channel(1);
    let (_select_oneshot, select_oneshot) = oneshot::channel();
    let (second, second_receiver) = mpsc::channel(1);

    spawn(wait_accept(listener));
    spawn(wait_read(client));
    spawn(wait_mutex(mutex.clone()));
    spawn(wait_semaphore(semaphore.clone()));
    spawn(wait_by_one_way(semaphore.clone()));
    spawn(wait_by_another(semaphore.clone()));
    spawn(wait_oneshot(oneshot));
    spawn(wait_mpsc(mpsc));
    let sleeper = spawn(wait_sleep(Duration::from_secs(3600)));
    spawn(wait_join(sleeper));
    spawn(wait_select(select_mpsc, select_oneshot));
    spawn(wait_second(second_receiver, semaphore.clone()));
    spawn(wait_after_tick(mutex.clone()));
    spawn(wait_after_sleep(mutex.clone(), tokio::time::Instant::now()));
    spawn(wait_tick());
    // Over before anybody looks: they must not be in the table.
    for _ in 0..20 {
        let _ = spawn(tokio::task::yield_now()).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    second.send(1).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    println!(
        "{{\"pid\":{},\"polls\":{},\"ends\":{}}}",
        std::process::id(),
        POLLS.load(Ordering::Relaxed),
        ENDS.load(Ordering::Relaxed)
    );
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    println!(
        "{{\"polls\":{},\"ends\":{}}}",
        POLLS.load(Ordering::Relaxed),
        ENDS.load(Ordering::Relaxed)
    );
    drop(guard);
    drop(accepted);
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(30, |text| text.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Its own thread keeps no task: what block_on polls has no header.
    runtime.block_on(run(seconds));
    runtime.shutdown_timeout(Duration::from_millis(100));
}
