// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks that wait at known places, one function each.
use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, Mutex, Semaphore};

#[inline(never)]
pub async fn wait_accept(listener: TcpListener) {
    let _ = listener.accept().await;
}

#[inline(never)]
pub async fn wait_read(mut stream: TcpStream) {
    let mut buffer = [0u8; 16];
    let _ = stream.read(&mut buffer).await;
}

#[inline(never)]
pub async fn wait_mutex(mutex: Arc<Mutex<u32>>) {
    let mut guard = mutex.lock().await;
    *guard += 1;
}

#[inline(never)]
pub async fn wait_semaphore(semaphore: Arc<Semaphore>) {
    let _permit = semaphore.acquire().await;
}

/// Two ways to one place.
#[inline(never)]
pub async fn wait_by_one_way(semaphore: Arc<Semaphore>) {
    wait_semaphore(semaphore).await
}

#[inline(never)]
pub async fn wait_by_another(semaphore: Arc<Semaphore>) {
    wait_semaphore(semaphore).await
}

#[inline(never)]
pub async fn wait_oneshot(receiver: oneshot::Receiver<u32>) {
    let _ = receiver.await;
}

#[inline(never)]
pub async fn wait_mpsc(mut receiver: mpsc::Receiver<u32>) {
    let _ = receiver.recv().await;
}

#[inline(never)]
pub async fn wait_sleep(how_long: Duration) {
    tokio::time::sleep(how_long).await;
}

#[inline(never)]
pub async fn wait_join(handle: tokio::task::JoinHandle<()>) {
    let _ = handle.await;
}

/// When its first tick is due, it goes by it, and waits for the lock in the same poll.
#[inline(never)]
pub async fn wait_after_tick(mutex: Arc<Mutex<u32>>) {
    let mut interval = tokio::time::interval(Duration::from_secs(3600));
    interval.tick().await;
    let mut guard = mutex.lock().await;
    *guard += 1;
}

/// The same with a leaf that nobody keeps.
#[inline(never)]
pub async fn wait_after_sleep(mutex: Arc<Mutex<u32>>, due: tokio::time::Instant) {
    tokio::time::sleep_until(due).await;
    let mut guard = mutex.lock().await;
    *guard += 1;
}

/// The same line twice in a poll: when the first tick is due, the second is not.
#[inline(never)]
pub async fn wait_tick() {
    let mut interval = tokio::time::interval(Duration::from_secs(3600));
    loop {
        interval.tick().await;
    }
}

/// What `tokio::select!` expands to: one poll asks all of them.
#[inline(never)]
pub async fn wait_select(mut first: mpsc::Receiver<u32>, second: oneshot::Receiver<u32>) {
    let mut first = std::pin::pin!(first.recv());
    let mut second = std::pin::pin!(second);
    let mut third = std::pin::pin!(tokio::time::sleep(Duration::from_secs(3600)));
    std::future::poll_fn(|context| {
        if first.as_mut().poll(context).is_ready()
            || second.as_mut().poll(context).is_ready()
            || third.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}
