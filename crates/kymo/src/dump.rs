// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::future::{Future, IntoFuture};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::Error;
use crate::raw::{self, DumpOptions, Dumped};
use crate::recorder::c_string;

/// A trace of what the ring holds, to be made by [`wait`](Dump::wait), [`bytes`](Dump::bytes) or
/// `.await`. Recording continues meanwhile.
///
/// ```no_run
/// # async fn handler() -> Result<(), kymo::Error> {
/// let made = kymo::dump().reason("slow-request").last(std::time::Duration::from_secs(10)).await?;
/// println!("{}", made.path.display());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is dumped before wait(), bytes(), request() or .await"]
#[derive(Default)]
pub struct Dump {
    options: DumpOptions,
    error: Option<Error>,
}

/// Begins the description of a dump; without more it is everything the ring holds.
pub fn dump() -> Dump {
    Dump::default()
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Dump {
    fn text(&mut self, what: &str, text: &str) -> Option<std::ffi::CString> {
        c_string(what, text).map_err(|why| self.error.get_or_insert(why).clone()).ok()
    }

    /// Part of the file's name, at most 47 bytes. Default: `request`.
    pub fn reason(mut self, reason: &str) -> Self {
        self.options.reason = self.text("reason", reason);
        self
    }

    /// A sentence for people, in the trace.
    pub fn label(mut self, label: &str) -> Self {
        self.options.label = self.text("label", label);
        self
    }

    /// Its file, if the name ends in `.trc` or `.trc.zst`, else the folder. Default: `dump_dir`.
    pub fn path(mut self, path: impl AsRef<Path>) -> Self {
        self.options.path = self.text("path", &path.as_ref().to_string_lossy());
        self
    }

    /// Only the last so long.
    pub fn last(mut self, last: Duration) -> Self {
        self.options.last_ns = ns(last);
        self
    }

    /// And so much more after the call, at most an hour.
    pub fn after(mut self, after: Duration) -> Self {
        self.options.after_ns = ns(after);
        self
    }

    /// Record nothing more once it is made, so that the ring keeps what it holds.
    pub fn and_stop(mut self) -> Self {
        self.options.is_stop = true;
        self
    }

    /// Makes it; the calling thread waits. Not inside a poll: there, `.await` it.
    ///
    /// # Errors
    /// Nothing is recorded here, or what the disk refused.
    pub fn wait(self) -> Result<Dumped, Error> {
        self.error.map_or_else(|| raw::dump(&self.options, None), Err)
    }

    /// Asks for it and returns at once; nothing says how it went but [`Status`](crate::Status).
    pub fn request(self) {
        if self.error.is_none() {
            let _ = raw::dump_then(&self.options, Box::new(|_| {}));
        }
    }

    /// Makes it in memory; the calling thread waits. `std::io::Cursor` makes a reader of it.
    ///
    /// # Errors
    /// As [`wait`](Dump::wait).
    pub fn bytes(self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();

        self.error.map_or_else(|| raw::dump(&self.options, Some(&mut bytes)), Err)?;
        Ok(bytes)
    }
}

#[derive(Default)]
struct Shared {
    result: Option<Result<Dumped, Error>>,
    waker: Option<Waker>,
}

/// Of [`Dump`]: ready when the recorder's thread has made it.
pub struct Dumping {
    shared: Arc<Mutex<Shared>>,
}

impl Future for Dumping {
    type Output = Result<Dumped, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);

        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl IntoFuture for Dump {
    type Output = Result<Dumped, Error>;
    type IntoFuture = Dumping;

    fn into_future(self) -> Dumping {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let theirs = shared.clone();
        let asked = match self.error {
            Some(error) => Err(error),
            None => raw::dump_then(
                &self.options,
                Box::new(move |result| {
                    let mut shared = theirs.lock().unwrap_or_else(PoisonError::into_inner);
                    let waker = shared.waker.take();

                    shared.result = Some(result);
                    drop(shared);
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }),
            ),
        };

        if let Err(why) = asked {
            shared.lock().unwrap_or_else(PoisonError::into_inner).result = Some(Err(why));
        }
        Dumping { shared }
    }
}
