// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spawning with what Tokio does not pass on: the request, and where its tables cannot be used, a
//! record of each poll and wake.
use std::any::type_name;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet, LocalSet};

use crate::raw;
use crate::span::{for_request, request_id};

/// Above any id of Tokio's: tasks that are wrapped because they are not seen otherwise.
static NEXT: AtomicU64 = AtomicU64::new(1 << 38);

struct Woken {
    task: u64,
    waker: Waker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        raw::wake(self.task, kymo_sys::KYMO_WAKE_BY_VALUE);
        self.waker.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        raw::wake(self.task, 0);
        self.waker.wake_by_ref();
    }
}

/// Records each poll of the future, and each wake through the waker that it gives it.
struct Wrapped<F> {
    future: Pin<Box<F>>,
    task: u64,
    name: u32,
    woken: Option<Arc<Woken>>,
    /// Its polls are recorded by this, and it was polled.
    is_open: bool,
}

/// The poll of this very task that a callback of Tokio's builder began; 0: there is none.
fn polled_task() -> u64 {
    #[cfg(all(feature = "hooks", tokio_unstable))]
    return crate::hooks::polled_task();
    #[cfg(not(all(feature = "hooks", tokio_unstable)))]
    0
}

/// Ends the poll also where the future panics.
struct OpenPoll(u32);

impl Drop for OpenPoll {
    fn drop(&mut self) {
        raw::end_poll(self.0);
    }
}

impl<F: Future> Future for Wrapped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        let inner = context.waker();
        let polled = polled_task();

        if polled != 0 {
            this.task = polled;
        }
        let woken = match &this.woken {
            Some(woken) if woken.task == this.task && woken.waker.will_wake(inner) => woken.clone(),
            _ => Arc::new(Woken { task: this.task, waker: inner.clone() }),
        };
        let waker = Waker::from(woken.clone());

        this.woken = Some(woken);
        if polled != 0 {
            return this.future.as_mut().poll(&mut Context::from_waker(&waker));
        }
        this.is_open = false;
        raw::begin_poll(this.task, this.name, u32::MAX);
        // A future that panics is done: its task ends.
        let mut open = OpenPoll(kymo_sys::KYMO_POLL_READY);
        let result = this.future.as_mut().poll(&mut Context::from_waker(&waker));

        this.is_open = result.is_pending();
        if this.is_open {
            open.0 = 0;
        }
        result
    }
}

impl<F> Drop for Wrapped<F> {
    fn drop(&mut self) {
        if self.is_open {
            raw::end_task(self.task, self.name);
        }
    }
}

/// With the request of the caller; and wrapped where every task is not recorded anyway.
async fn recorded<F: Future>(request: Option<u64>, future: F) -> F::Output {
    if !raw::is_wrapping() {
        return for_request(request, future).await;
    }
    let wrapped = Wrapped {
        future: Box::pin(future),
        task: NEXT.fetch_add(1, Ordering::Relaxed),
        name: raw::intern_name(type_name::<F>()),
        woken: None,
        is_open: false,
    };

    for_request(request, wrapped).await
}

/// [`tokio::spawn`], and the task works for the [`request`](crate::request) of the caller. It is
/// recorded also where Tokio's own tables could not be used.
///
/// ```
/// # async fn example() {
/// kymo::spawn(async { /* work */ }).await.expect("it did not panic");
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    tokio::spawn(recorded(request_id(), future))
}

/// The same on a runtime's handle.
#[track_caller]
pub fn spawn_on<F>(runtime: &Handle, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime.spawn(recorded(request_id(), future))
}

/// The same on the local set of the thread.
#[track_caller]
pub fn spawn_local<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(recorded(request_id(), future))
}

/// The same on a local set.
#[track_caller]
pub fn spawn_local_on<F>(set: &LocalSet, future: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    set.spawn_local(recorded(request_id(), future))
}

/// The same for Tokio's `JoinSet`.
pub trait JoinSetExt<T> {
    /// As [`spawn`], into this set.
    fn spawn_recorded<F>(&mut self, future: F) -> tokio::task::AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send;
}

impl<T: 'static> JoinSetExt<T> for JoinSet<T> {
    #[track_caller]
    fn spawn_recorded<F>(&mut self, future: F) -> tokio::task::AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
        T: Send,
    {
        self.spawn(recorded(request_id(), future))
    }
}
